#!/usr/bin/env bash
# Checks and measures the CUDA kernels on a machine with a GPU: deploy/gpu-check.sh [OUT].
#
# Needs a CUDA toolkit, cmake, ninja, PyTorch 2.11 with pytest, numpy, timm and torchvision, and the headers of Highway and
# nlohmann/json: the system's, or those that `deploy/gpu-check.sh --headers` copied from a machine that has them into
# build/gpu-headers, to travel with the checkout. No gRPC, OpenCV, Abseil, protobuf or GoogleTest. Nothing is downloaded.
#
# Builds kernels and model_zoo for this GPU alone, runs the operators' tests on it, compute-sanitizer over the quick ones
# where it is installed, and the benchmark. Leaves in OUT (build/gpu-check): machine.txt, tests.txt, sanitizer.txt,
# gpu.csv, gpu.md. To be committed: gpu.md and gpu.csv, to docs/results/. Exits 1 when a test, the sanitizer or the
# benchmark fails.
set -uo pipefail
cd "$(dirname "$0")/.."
headers=build/gpu-headers
if [ "${1:-}" = --headers ]; then
  mkdir -p $headers && cp -rL /usr/include/hwy /usr/include/nlohmann $headers/ && echo "headers in $headers"
  exit
fi
out=${1:-build/gpu-check}
mkdir -p "$out"
out=$(realpath "$out")
python=${PYTHON:-python3}
failed=0

say() { printf '\n== %s\n' "$*"; }
step() {
  local name=$1 start=$SECONDS
  shift
  say "$name"
  if "$@"; then echo "$name: ok, $((SECONDS - start)) s"; else
    echo "$name: FAILED after $((SECONDS - start)) s"
    failed=1
  fi
}

if ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
  echo "deploy/gpu-check.sh: PyTorch sees no GPU here" >&2
  exit 2
fi
arch=$("$python" -c 'import torch; c = torch.cuda.get_device_capability(); print("%d%d%s" % (*c, "a" if c[0] == 9 else ""))')
torch_root=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent)')
{
  "$python" -c 'import torch; print(torch.cuda.get_device_name(), "sm_%d%d" % torch.cuda.get_device_capability(), "torch", torch.__version__)'
  nvcc --version | tail -1
  nvidia-smi --query-gpu=driver_version,clocks.max.sm --format=csv,noheader
  date -u +%F
  git rev-parse HEAD 2>/dev/null
} > "$out/machine.txt"
cat "$out/machine.txt"

build=build/gpu
travelling=()
[ -d $headers ] && travelling=("-DFOVEA_HIGHWAY_INCLUDE=$PWD/$headers" "-DFOVEA_JSON_INCLUDE=$PWD/$headers")
configure() {
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DFOVEA_SERVER=OFF -DFOVEA_TESTS=OFF -DFOVEA_CUDA=ON \
    "-DFOVEA_CUDA_ARCHITECTURES=$arch-real" "-DFOVEA_TORCH_ROOT=$torch_root" \
    "${travelling[@]}" > "$out/configure.txt" 2>&1 ||
    { tail -30 "$out/configure.txt"; return 1; }
}
compile() { cmake --build $build > "$out/build.txt" 2>&1 || { grep -A5 -E 'error|FAILED' "$out/build.txt" | head -60; return 1; }; }
step "configure for sm_$arch" configure
[ $failed = 0 ] && step "build" compile
[ $failed = 0 ] || exit 1
export FOVEA_BUILD=$build

tests() { "$python" -m pytest -q tests/kernels --confcutdir=tests/kernels -p no:cacheprovider 2>&1 | tee "$out/tests.txt" | tail -25; }
sanitize() {
  # Under memcheck everything is some fifty times slower: the small shapes alone.
  compute-sanitizer --tool memcheck --error-exitcode 1 "$python" tests/bench/gpu/smallest_calls.py 2>&1 |
    tee "$out/sanitizer.txt" | tail -5 &&
    compute-sanitizer --tool racecheck --error-exitcode 1 "$python" tests/bench/gpu/smallest_calls.py 2>&1 |
    tee -a "$out/sanitizer.txt" | tail -5
}
bench() { "$python" tests/bench/gpu/bench_gpu.py --csv "$out/gpu.csv" --markdown "$out/gpu.md" --machine "$out/machine.txt"; }
step "tests on the GPU" tests
if command -v compute-sanitizer > /dev/null; then
  step "compute-sanitizer" sanitize
else
  echo "compute-sanitizer is not installed: skipped" | tee "$out/sanitizer.txt"
fi
step "benchmark" bench
say "results in $out"
exit $failed
