#!/usr/bin/env bash
# Runs every test, after its own set-up, and prints what each part took. `tests/run.sh --full` adds what does not fit
# into continuous integration. Exits 1 when any part failed, after the others have run.
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/report.sh
full=
[ "${1:-}" = --full ] && full=1
preset=${PRESET:-release}
# For C++ tests alone: servers that Python tests start would warn of unknown variables.
unit_test_variables=("FOVEA_SKIPPED=$skipped")
if [ -n "$full" ]; then
  # Another range of seeds each time; a failure prints its own.
  unit_test_variables+=("FOVEA_FUZZ_SEED=$((SRANDOM * 65536))" FOVEA_FUZZ_CASES=100000)
  # At all sizes of all pairs of backbone and attention; otherwise a third of them.
  unit_test_variables+=(FOVEA_ALL_PAIRS=1)
else
  # That each CUDA kernel compiles is seen with one element type for one architecture, in a sixth of the time.
  export FOVEA_CUDA_TYPES=ONE
fi

# Neither the user's own answers (kernels/choice) nor those of another build.
export FOVEA_CHOICES=$PWD/build/$preset/choices.json

# The questions of the bundled models, asked anew while nothing else runs: an answer of a busy machine is not kept, and each
# of some hundred servers would measure for itself.
choices() {
  rm -f "$FOVEA_CHOICES"
  local threads profile=("build/$preset/bin/fovea-zoo" --profile --attention dense)
  local others=(--attention aewin --attention cska --attention key_only)
  for threads in 1 "$(nproc)"; do
    {
      OMP_NUM_THREADS=$threads "build/$preset/bin/fovea-kernels" &&
        OMP_NUM_THREADS=$threads "${profile[@]}" --attention knn:k=0.5 vit_demo_patch8_64 &&
        OMP_NUM_THREADS=$threads "${profile[@]}" "${others[@]}" demo_frame_64 &&
        OMP_NUM_THREADS=$threads "${profile[@]}" "${others[@]}" --image-size 128 linglo_demo
    } > /dev/null || return
  done
}
unit_tests() { env "${unit_test_variables[@]}" ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" -L unit; }
# Each file in one process, as files share servers, in the order of tests/conftest.py; one more than processors, as they wait
# for servers a quarter of the time. OpenMP's threads sleep where they wait, as in ctest (cmake/FoveaTest.cmake).
python_tests() {
  FOVEA_BUILD=build/$preset OMP_WAIT_POLICY=passive .venv/bin/python -m pytest -q tests -p no:cacheprovider \
    -n $(($(nproc) + 1)) --dist loadfile --no-loadscope-reorder ${full:+--full}
}

part "set-up" deploy/setup/setup.sh test || report
part "rules" tests/lint.sh --quick
part "build" deploy/setup/build.sh "$preset" || report
part "choices" choices
part "unit tests (ctest)" unit_tests
part "system tests (pytest)" python_tests
[ -z "$full" ] || part "other instruction sets" env "${unit_test_variables[@]}" tests/instruction_sets.sh "build/$preset"
report
