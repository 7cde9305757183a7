#!/usr/bin/env bash
# Runs the tests of kernels and models as other processors would: ATen, oneDNN and MKL held to other instruction sets, one
# thread and two. tests/instruction_sets.sh [BUILD]; exits 1 when any run failed, after the others have run.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
logs=$build/instruction_sets
mkdir -p "$logs"
failed=0

# try NAME TESTS SETTING...: runs the binaries with these variables in their environment.
try() {
  local name=$1 tests=$2 test start outcome
  shift 2
  for test in $tests; do
    start=$SECONDS outcome=ok
    env "$@" "$build/tests/$test" --gtest_brief=1 > "$logs/$name.$test.log" 2>&1 || outcome=FAILED
    printf '%-28s %-22s %5d s   %s\n' "$name" "$test" $((SECONDS - start)) "$outcome"
    if [ "$outcome" = FAILED ]; then
      failed=1
      grep -A 8 Failure "$logs/$name.$test.log" | head -40
    fi
  done
}

most="kernels_test model_zoo_test"
all="$most zoo_pairs_test"  # which takes minutes
try one_thread "$most" OMP_NUM_THREADS=1
try two_threads "$most" OMP_NUM_THREADS=2
try aten_avx2 "$all" ATEN_CPU_CAPABILITY=avx2
try aten_default "$most" ATEN_CPU_CAPABILITY=default
for isa in SSE41 AVX2 AVX512_CORE AVX512_CORE_BF16; do try "onednn_$isa" "$most" "ONEDNN_MAX_CPU_ISA=$isa"; done
for isa in SSE4_2 AVX2 AVX512; do try "mkl_$isa" "$most" "MKL_ENABLE_INSTRUCTIONS=$isa"; done
try all_avx2 "$all" ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 OMP_NUM_THREADS=1
try oldest "$all" ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 MKL_ENABLE_INSTRUCTIONS=SSE4_2
exit $failed
