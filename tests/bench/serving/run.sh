#!/usr/bin/env bash
# The server against the raw model and Triton, saturated and under requests that come at random: tests/bench/serving/run.sh BUILD [OUT].
# Leaves open_loop.json and open_loop.png in OUT (BUILD/bench). Exits 1 when a floor is missed.
set -uo pipefail
cd "$(dirname "$0")/../../.."
build=$1
out=${2:-$build/bench}
failed=0
.venv/bin/python tests/bench/serving/serving.py --build "$build" || failed=1
.venv/bin/python tests/bench/serving/open_loop.py --build "$build" --out "$out" || failed=1
.venv/bin/python tests/bench/serving/plot_open_loop.py "$out/open_loop.json" "$out/open_loop.png" || failed=1
echo "written: $out/open_loop.json $out/open_loop.png"
exit $failed
