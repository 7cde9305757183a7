#!/usr/bin/env bash
# Checks and measures what runs on a GPU, on a machine that has one: deploy/gpu-check.sh [STAGE...]
#
#   build      what deploy/gpu-bundle.sh packed elsewhere, if it came along; else compiles kernels and model_zoo for this GPU
#   kernels    the operators' tests on the GPU                       kernels.txt
#   models     every backbone, attention and head against the CPU    models.txt
#   bench      kernels and whole models against what a user would    gpu.csv, gpu.md, models.csv
#              call instead; rows are written as they are measured
#   sanitize   compute-sanitizer over the quick kernels' calls       sanitizer.txt
#   serve      the bundle's server under load, and tests/conformance serve.csv, conformance.txt
#
# All of them without a STAGE. A stage leaves its results when it ends, in $OUT (build/gpu-check) beside machine.txt, and what
# a stage needs of `build` is kept, so that they can be run in several calls. To be committed: gpu.md and the CSVs, to
# docs/results/. Exits 1 when a stage failed.
#
# Needs PyTorch 2.11 with pytest, numpy, timm and torchvision; without the bundle also a CUDA toolkit, cmake, ninja and the headers
# of Highway and nlohmann/json: the system's, or those that `deploy/gpu-check.sh --headers` copied from a machine that has them
# into build/gpu-headers. Nothing is downloaded.
set -uo pipefail
cd "$(dirname "$0")/.."
headers=build/gpu-headers
if [ "${1:-}" = --headers ]; then
  mkdir -p $headers && cp -rL /usr/include/hwy /usr/include/nlohmann $headers/ && echo "headers in $headers"
  exit
fi
stages=("$@")
[ $# -gt 0 ] || stages=(build kernels models bench sanitize serve)
out=${OUT:-build/gpu-check}
mkdir -p "$out"
out=$(realpath "$out")
python=${PYTHON:-python3}
build=build/gpu
bundle=build/gpu-bundle
export FOVEA_BUILD=$build

if ! "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
  echo "deploy/gpu-check.sh: PyTorch sees no GPU here" >&2
  exit 2
fi
torch_root=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent)')
cuda_libraries=$(printf '%s:' "$torch_root"/../nvidia/*/lib)
# Of the bundle's programs: they were linked elsewhere.
export LD_LIBRARY_PATH=$PWD/$build/lib:$torch_root/lib:$cuda_libraries${LD_LIBRARY_PATH:-}

machine() {
  "$python" -c 'import torch; print(torch.cuda.get_device_name(), "sm_%d%d" % torch.cuda.get_device_capability(), "torch", torch.__version__)'
  nvcc --version 2> /dev/null | tail -1
  nvidia-smi --query-gpu=driver_version,clocks.max.sm --format=csv,noheader
  date -u +%F
  git rev-parse HEAD 2> /dev/null
}

unpack() {
  mkdir -p $build && tar -C $build -xJf $bundle/server.tar.xz && ls $build/bin $build/lib | tail -5
}
compile() {
  local arch travelling=()
  arch=$("$python" -c 'import torch; c = torch.cuda.get_device_capability(); print("%d%d%s" % (*c, "a" if c[0] == 9 else ""))')
  [ -d $headers ] && travelling=("-DFOVEA_HIGHWAY_INCLUDE=$PWD/$headers" "-DFOVEA_JSON_INCLUDE=$PWD/$headers")
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DFOVEA_SERVER=OFF -DFOVEA_TESTS=OFF -DFOVEA_CUDA=ON \
    "-DFOVEA_CUDA_ARCHITECTURES=$arch-real" "-DFOVEA_TORCH_ROOT=$torch_root" \
    "${travelling[@]}" > "$out/configure.txt" 2>&1 || { tail -30 "$out/configure.txt"; return 1; }
  cmake --build $build > "$out/build.txt" 2>&1 || { grep -A5 -E 'error|FAILED' "$out/build.txt" | head -60; return 1; }
}
build_stage() { if [ -e $bundle/server.tar.xz ]; then unpack; else compile; fi; }

# pytest NAME FILE...: into NAME.txt, with a line of it for each failure.
tests() {
  local name=$1
  shift
  "$python" -m pytest -q -rf "$@" -p no:cacheprovider > "$out/$name.txt" 2>&1
  local code=$?
  tail -25 "$out/$name.txt"
  return $code
}
kernels_stage() { tests kernels tests/kernels --confcutdir=tests/kernels; }
models_stage() { tests models tests/model_zoo/test_models_on_gpu.py --confcutdir=tests/model_zoo; }
bench_stage() {
  local failed=0
  "$python" tests/bench/gpu/whole_models.py --csv "$out/models.csv" || failed=1
  "$python" tests/bench/gpu/bench_gpu.py --csv "$out/gpu.csv" --markdown "$out/gpu.md" --machine "$out/machine.txt" || failed=1
  return $failed
}
sanitize_stage() {
  if ! command -v compute-sanitizer > /dev/null; then
    echo "compute-sanitizer is not installed: nothing was sanitized" | tee "$out/sanitizer.txt"
    return 1
  fi
  local tool
  # Everything is some fifty times slower under it: the small shapes alone.
  for tool in memcheck racecheck; do
    compute-sanitizer --tool $tool --error-exitcode 1 "$python" tests/bench/gpu/smallest_calls.py 2>&1 |
      tee -a "$out/sanitizer.txt" | tail -5 || return 1
  done
}
serve_stage() {
  [ -x $build/bin/fovea-server ] || { echo "no server in $build: it comes with deploy/gpu-bundle.sh's bundle"; return 1; }
  local failed=0 venv=$build/venv
  "$python" tests/bench/gpu/serve.py --build $build --csv "$out/serve.csv" || failed=1
  [ -d $venv ] || { "$python" -m venv --system-site-packages $venv &&
    $venv/bin/pip install -q --no-index --find-links $bundle/wheels $bundle/wheels/*.whl; } || return 1
  python=$venv/bin/python tests conformance tests/conformance || failed=1
  return $failed
}

failed=0
machine > "$out/machine.txt"
cat "$out/machine.txt"
for stage in "${stages[@]}"; do
  printf '\n== %s\n' "$stage"
  start=$SECONDS
  if "${stage}_stage"; then echo "$stage: ok, $((SECONDS - start)) s"; else
    echo "$stage: FAILED after $((SECONDS - start)) s"
    failed=1
    [ "$stage" != build ] || break
  fi
done
echo "results in $out"
exit $failed
