#!/usr/bin/env bash
# Runs every test, after its own set-up, and prints what each part took. `tests/run.sh --full` adds what does not fit
# into continuous integration. Exits 1 when any part failed, after the others have run.
set -uo pipefail
cd "$(dirname "$0")/.."
full=
[ "${1:-}" = --full ] && full=1
preset=${PRESET:-release}
# That each CUDA kernel compiles is seen with one element type, in a third of the time.
[ -n "$full" ] || export FOVEA_CUDA_TYPES=ONE
cores=$(nproc)
names=() seconds=() results=()

# part NAME COMMAND...: runs it, keeps its time and its outcome.
part() {
  local name=$1 start=$SECONDS outcome=ok
  shift
  printf '\n\033[1m== %s\033[0m\n' "$name"
  "$@" || outcome=FAILED
  names+=("$name") seconds+=($((SECONDS - start))) results+=("$outcome")
  [ $outcome = ok ]
}

unit_tests() { ctest --test-dir "build/$preset" --output-on-failure -j "$cores" -L unit; }
python_tests() {
  FOVEA_BUILD=build/$preset .venv/bin/python -m pytest -q tests -p no:cacheprovider ${full:+--full}
}
sanitizer_tests() {
  deploy/setup/build.sh "$1" "$1_tests" && ctest --test-dir "build/$1" --output-on-failure -j "$cores" -L "$1"
}

report() {
  printf '\n== time by part (%s, %s cores)\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$cores"
  local i failed=0
  for i in "${!names[@]}"; do
    printf '%-28s %5d s   %s\n' "${names[$i]}" "${seconds[$i]}" "${results[$i]}"
    [ "${results[$i]}" = ok ] || failed=1
  done
  printf '%-28s %5d s\n' "all" "$SECONDS"
  exit $failed
}

part "set-up" deploy/setup/setup.sh test || report
part "build" deploy/setup/build.sh "$preset" || report
part "unit tests (ctest)" unit_tests
part "system tests (pytest)" python_tests
part "AddressSanitizer, UBSan" sanitizer_tests asan
part "ThreadSanitizer" sanitizer_tests tsan
report
