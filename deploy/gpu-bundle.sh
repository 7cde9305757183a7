#!/usr/bin/env bash
# Packs what deploy/gpu-check.sh needs on a machine with a GPU where nothing is installed but PyTorch, and nothing can be
# downloaded: deploy/gpu-bundle.sh [BUILD] (build/release). Leaves build/gpu-bundle/server.tar.xz, of 40 MiB at most: the
# server, its command line, the load generator and the kernels, with the libraries that they need beyond LibTorch's, CUDA's
# and glibc's, and requests for the load generator; and build/gpu-bundle/wheels/, what tests/conformance imports there.
#
# BUILD holds everything that `make build` builds, its kernels for sm_90a among other architectures. The other machine has
# PyTorch 2.11 of the same CUDA, and a glibc that is not older than this machine's.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
to=build/gpu-bundle
python_version=${PYTHON_VERSION:-3.12} # the other machine's
most=$((40 << 20))

# A build for one element type runs the others by their references, and a missing architecture nothing at all.
"$build/bin/fovea-kernels" --json | .venv/bin/python -c '
import json, sys

cuda = json.load(sys.stdin)["cuda"]
missing = [t for t in ("fp32", "bf16", "fp16") if t not in cuda["types"]]
missing += [a for a in ("sm_90a",) if a not in cuda["architectures"]]
if missing:
    lacks = f"{sys.argv[1]} has no CUDA kernels for " + ", ".join(missing)
    sys.exit(f"deploy/gpu-bundle.sh: {lacks}; configure it for all types: `make build` does where nvcc is found")
' "$build"

rm -rf "$to"
mkdir -p "$to/server/bin" "$to/server/lib" "$to/wheels"
programs=("$build/bin/fovea-server" "$build/bin/fovea" "$build/bin/fovea-kernels" "$build/tests/bench_load" "$build/tests/bench_raw_model")
libraries=("$build/lib/libfovea_kernels.so" "$build/lib/libfovea_models.so")
cp "${programs[@]}" "$to/server/bin/"
cp "${libraries[@]}" "$to/server/lib/"

# A library is packed unless it is LibTorch's or CUDA's (of the wheels) or glibc's.
ldd "${programs[@]}" "${libraries[@]}" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u |
  while read -r library; do
    case $(basename "$library") in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libutil.so.* | libresolv.so.*) continue ;;
    esac
    case $library in
      */lib/torch/* | */site-packages/* | */cuda*) continue ;;
    esac
    cp -Lu "$library" "$to/server/lib/"
  done
strip --strip-unneeded "$to"/server/bin/* "$to"/server/lib/*.so*

.venv/bin/python tests/bench/gpu/serving_requests.py "$to/server/requests"
tar -C "$to/server" -cJf "$to/server.tar.xz" .
rm -r "$to/server"
size=$(stat -c %s "$to/server.tar.xz")
[ "$size" -le $most ] || { echo "deploy/gpu-bundle.sh: server.tar.xz has $size bytes, more than $most" >&2; exit 1; }

# numpy and Pillow come with PyTorch and torchvision there.
grep -hE '^(pytest|tritonclient|grpcio-|opentelemetry-proto|httpx|safetensors)' requirements-test.txt |
  sed 's/ *#.*//' > "$to/wheels.txt"
.venv/bin/pip download -q --only-binary=:all: --python-version "$python_version" --platform manylinux2014_x86_64 \
  --platform manylinux_2_28_x86_64 --platform any -d "$to/wheels" -r "$to/wheels.txt"
rm -f "$to"/wheels/numpy-* "$to"/wheels/pillow-* "$to"/wheels/ml_dtypes-* "$to/wheels.txt"
du -sh "$to/server.tar.xz" "$to/wheels"
