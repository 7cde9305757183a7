#!/usr/bin/env bash
# run.sh SECONDS [TARGET...]: runs each fuzz target (all of them where none is named) for so long, one process for each core, from its
# seeds and from what earlier runs found in build/fuzz/corpus. An input that breaks something is left in build/fuzz/findings. Exits 1
# when there was one.
set -uo pipefail
cd "$(dirname "$0")/../.."
seconds=$1
shift
deploy/setup/setup.sh build
dpkg-query -W libclang-rt-14-dev > /dev/null 2>&1 || {
  as_root=$([ "$(id -u)" = 0 ] || echo sudo)
  $as_root apt-get install -y -q --no-install-recommends libclang-rt-14-dev || exit 1
}
deploy/setup/build.sh fuzz fuzz_targets || exit 1
targets=("$@")
[ $# -gt 0 ] || targets=($(ls tests/fuzz/corpus))
findings=build/fuzz/findings
mkdir -p "$findings"

fuzz() {
  local target=$1 log=build/fuzz/$1.log found=build/fuzz/corpus/$1 code=0
  mkdir -p "$found"
  # A run that takes over 10 seconds, or more than 2 GiB, is a finding too.
  build/fuzz/bin/fuzz_"$target" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$findings/$target-" "$found" "tests/fuzz/corpus/$target" > "$log" 2>&1 || code=1
  printf '%-18s %s %s\n' "$target" "$([ $code = 0 ] && echo ok || echo FOUND)" \
    "$(sed -n 's/^stat::number_of_executed_units: */runs /p; s/^stat::average_exec_per_sec: */a second /p' "$log" | paste -sd ' ')"
  return $code
}
export -f fuzz
export seconds findings
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I {} bash -c 'fuzz {}' || { echo "what broke something lies in $findings"; exit 1; }
