# For run.sh and sanitize.sh: runs the parts of a suite one after another, and prints what each took and how it ended.
#   part NAME COMMAND...   fails as the command does
#   report                 ends the script: 1 where a part failed
#   $skipped               a file to which tests append what they could not run on this machine, a line each
skipped=$(mktemp)
trap 'rm -f "$skipped"' EXIT
part_names=() part_seconds=() part_outcomes=()

part() {
  local name=$1 start=$SECONDS outcome=ok
  shift
  printf '\n\033[1m== %s\033[0m\n' "$name"
  "$@" || outcome=FAILED
  part_names+=("$name") part_seconds+=($((SECONDS - start))) part_outcomes+=("$outcome")
  [ $outcome = ok ]
}

report() {
  printf '\n== time by part (%s, %s cores)\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)"
  local i failed=0
  for i in "${!part_names[@]}"; do
    printf '%-28s %5d s   %s\n' "${part_names[$i]}" "${part_seconds[$i]}" "${part_outcomes[$i]}"
    [ "${part_outcomes[$i]}" = ok ] || failed=1
  done
  printf '%-28s %5d s\n' "all" "$SECONDS"
  if [ -s "$skipped" ]; then
    printf '\n== not run, because this machine lacks what it takes\n'
    sort -u "$skipped"
  fi
  exit $failed
}
