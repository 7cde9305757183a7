#include "kernels/simd/gemm.h"

#include <ATen/Context.h>
#include <ATen/native/CPUBlas.h>
#include <c10/util/BFloat16.h>

#include <exception>

#include "kernels/simd/isa.h"

namespace fovea::kernels::simd {
namespace {

const c10::BFloat16* AsBFloat16(const uint16_t* bits) {
  return reinterpret_cast<const c10::BFloat16*>(bits);
}

// oneDNN does not tell what it would use, but refuses these layouts where it would emulate them:
// with an error of ATen's, or of its own where ONEDNN_MAX_CPU_ISA keeps it from the instructions.
template <class Gemm>
bool Runs(const Gemm& gemm) {
  try {
    gemm();
  } catch (const std::exception&) {
    return false;
  }
  ReleaseBf16Gemm();
  return true;
}

bool ProbeBf16() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512bf16")) return false;
  return Runs([] {
    uint16_t a[16 * 2] = {};
    uint16_t b[16 * 2] = {};
    float c[16 * 16];
    Bf16Gemm(16, 16, 2, a, 2, b, 16, c, 16);
  });
#else
  return false;
#endif
}

bool ProbeFp32() {
  return Runs([] {
    float a[16] = {};
    float b[16] = {};
    float c[16 * 16];
    Fp32Gemm(16, 16, 1, a, 1, b, 16, c, 16);
  });
}

bool AllowsOneDnn() {
  return CurrentIsa() == Isa::kAvx512 && at::globalContext().userEnabledMkldnn();
}

}  // namespace

bool HasBf16Gemm() {
  if (!AllowsOneDnn()) return false;
  static const bool has = ProbeBf16();
  return has;
}

bool HasFp32Gemm() {
  if (!AllowsOneDnn()) return false;
  static const bool has = ProbeFp32();
  return has;
}

bool HasAmxTiles() { return HasAmx() && HasBf16Gemm(); }

void Bf16Gemm(int64_t rows, int64_t columns, int64_t depth, const uint16_t* a, int64_t a_stride,
              const uint16_t* b, int64_t b_stride, float* c, int64_t c_stride) {
  at::native::cpublas::brgemm(rows, columns, depth, a_stride, b_stride, c_stride, /*add_C=*/false,
                              AsBFloat16(a), AsBFloat16(b), c);
}

void Fp32Gemm(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_stride,
              const float* b, int64_t b_stride, float* c, int64_t c_stride) {
  at::native::cpublas::brgemm(rows, columns, depth, a_stride, b_stride, c_stride, /*add_C=*/false,
                              a, b, c);
}

void ReleaseBf16Gemm() { at::native::cpublas::brgemm_release(); }

}  // namespace fovea::kernels::simd
