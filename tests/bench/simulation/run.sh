#!/usr/bin/env bash
# The scheduler in virtual time: tests/bench/simulation/run.sh BUILD [OUT]. Prints the table and leaves in OUT (BUILD/bench)
# simulation.csv and simulation.png.
set -euo pipefail
cd "$(dirname "$0")/../../.."
build=$1
out=${2:-$build/bench}
mkdir -p "$out"
"$build/tests/bench_simulate" "$out/simulation.csv"
.venv/bin/python tests/bench/simulation/plot_simulation.py "$out/simulation.csv" "$out/simulation.png"
echo "written: $out/simulation.csv $out/simulation.png"
