#!/usr/bin/env bash
# The kernels, imaging and the server against their floors in tests/bench/targets.csv: tests/bench/run.sh BUILD.
# Exits 1 when one is missed. Detectors (make bench-detection) and accuracy (make eval-demo) are measured by themselves.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=$1
failed=0
printf '%s, %s cores, %s, %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" \
  "$(.venv/bin/python -c 'import torch; print("torch", torch.__version__, torch.backends.cpu.get_cpu_capability())')" "$(date -u +%F)"
tests/bench/kernels/run.sh "$build" || failed=1
.venv/bin/python tests/bench/imaging/decode_resize.py --build "$build" || failed=1
tests/bench/serving/run.sh "$build" || failed=1
.venv/bin/python tests/bench/serving/neighbours.py --build "$build" || failed=1
exit $failed
