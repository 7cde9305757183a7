#!/usr/bin/env bash
# Runs the tests that have the labels asan and tsan under AddressSanitizer with UndefinedBehaviorSanitizer, and under
# ThreadSanitizer. Exits 1 when any part failed, after the others have run.
set -uo pipefail
cd "$(dirname "$0")/.."
. tests/report.sh

# With answers of its own (kernels/choice): what is instrumented is measured to be slow.
build_and_run() {
  local -x FOVEA_CHOICES=$PWD/build/$1/choices.json
  deploy/setup/build.sh "$1" "$1_tests" &&
    FOVEA_SKIPPED=$skipped ctest --test-dir "build/$1" --output-on-failure -j "$(nproc)" -L "$1"
}
export FOVEA_CUDA_TYPES=ONE

part "set-up" deploy/setup/setup.sh build || report
part "architectures" deploy/setup/build.sh release fovea_model_zoo || report
part "AddressSanitizer, UBSan" build_and_run asan
part "ThreadSanitizer" build_and_run tsan
report
