#!/usr/bin/env bash
# The kernels against what they replace: tests/bench/kernels/run.sh BUILD [OUT]. Prints the table and leaves in OUT
# (BUILD/bench) kernels.csv, scaling.csv and scaling.png. Exits 1 when a floor of tests/bench/targets.csv is missed.
set -uo pipefail
cd "$(dirname "$0")/../../.."
build=$1
out=${2:-$build/bench}
mkdir -p "$out"
failed=0
"$build/tests/bench_kernels" --csv="$out/kernels.csv" --scaling="$out/scaling.csv" || failed=1
.venv/bin/python tests/bench/kernels/plot_scaling.py "$out/scaling.csv" "$out/scaling.png" || failed=1
echo "written: $out/kernels.csv $out/scaling.csv $out/scaling.png"
exit $failed
