#!/usr/bin/env bash
# Configures a CMake preset where needed and builds it, or the given targets of it: build.sh PRESET [TARGET...]
# FOVEA_CUDA_TYPES=ONE configures a new folder for one element type and one architecture of the CUDA kernels; a folder
# that has ALL keeps it.
set -euo pipefail
cd "$(dirname "$0")/../.."
preset=$1
shift
folder=build/$preset
types=${FOVEA_CUDA_TYPES:-ALL}
configured=$(sed -n 's/^FOVEA_CUDA_TYPES:[A-Z]*=//p' "$folder/CMakeCache.txt" 2>/dev/null || true)
if [ ! -e "$folder/build.ninja" ] || { [ "$types" = ALL ] && [ "$configured" = ONE ]; }; then
  echo "== configuring ($preset)"
  mkdir -p "$folder"
  architectures=$([ "$types" = ONE ] && echo 90a-real || echo '80-real;90a-real')
  if ! cmake --preset "$preset" "-DFOVEA_CUDA_TYPES=$types" "-DFOVEA_CUDA_ARCHITECTURES=$architectures" > "$folder/configure.log" 2>&1; then
    tail -n 40 "$folder/configure.log"
    exit 1
  fi
  grep -E '^-- CUDA kernels' "$folder/configure.log" || true
fi
targets=()
[ $# = 0 ] || targets=(--target "$@")
cmake --build "$folder" "${targets[@]}"
