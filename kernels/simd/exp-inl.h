// 2^x in lanes, for softmax.
#if defined(FOVEA_KERNELS_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_SIMD_EXP_INL_H_
#undef FOVEA_KERNELS_SIMD_EXP_INL_H_
#else
#define FOVEA_KERNELS_SIMD_EXP_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

enum class ExpPrecision {
  kFp32,  // relative error under 8e-8
  kBf16,  // under 3e-6: far inside bf16's 2e-3
};

// Minimax polynomials of relative error for 2^f on [-0.5, 0.5].
template <ExpPrecision kPrecision, class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2OfFraction(D d, V f) {
  V p;
  if constexpr (kPrecision == ExpPrecision::kFp32) {
    p = hn::Set(d, 0x1.41d332p-13f);
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.5f456ap-10f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.3b2dbcp-7f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.c6aed4p-5f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.ebfbdap-3f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e430p-1f));
    p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  } else {
    p = hn::Set(d, 0x1.3997d4p-7f);
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.ca1442p-5f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.ec06dap-3f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.62e0dcp-1f));
    p = hn::MulAdd(p, f, hn::Set(d, 0x1.ffffe8p-1f));
  }
  return p;
}

#if HWY_TARGET == HWY_AVX3
// 2^x of any x: 0 of -inf, NaN of NaN. By AVX-512's own instructions for the integer part.
template <ExpPrecision kPrecision, class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2OfAny(D d, V x) {
  V f, power;
  asm("vreduceps $0, %1, %0" : "=v"(f.raw) : "v"(x.raw));  // x less the nearest integer
  const V p = Exp2OfFraction<kPrecision>(d, f);
  asm("vscalefps %2, %1, %0" : "=v"(power.raw) : "v"(p.raw), "v"(hn::Sub(x, f).raw));
  return power;
}
#endif

// 2^x for x <= 127. Arguments below -126 give 2^-126, next to nothing beside a softmax's largest
// term of 1; NaN gives anything.
template <ExpPrecision kPrecision, class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 leaves the integer nearest to x in the low bits of the sum.
  const V shifter = hn::Set(d, 12582912.0f);
  x = hn::Max(x, hn::Set(d, -126.0f));
  const V shifted = hn::Add(x, shifter);
  const V f = hn::Sub(x, hn::Sub(shifted, shifter));  // in [-0.5, 0.5], exact

  const V p = Exp2OfFraction<kPrecision>(d, f);
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
