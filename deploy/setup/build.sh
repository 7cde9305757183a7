#!/usr/bin/env bash
# Configures a CMake preset where needed and builds it, or the given targets of it: build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/../.."
preset=$1
shift
folder=build/$preset
if [ ! -e "$folder/build.ninja" ]; then
  echo "== configuring ($preset)"
  mkdir -p "$folder"
  if ! cmake --preset "$preset" > "$folder/configure.log" 2>&1; then
    tail -n 40 "$folder/configure.log"
    exit 1
  fi
  grep -E '^-- CUDA kernels' "$folder/configure.log" || true
fi
targets=()
[ $# = 0 ] || targets=(--target "$@")
cmake --build "$folder" "${targets[@]}"
