// The exact (not tanh) GELU in lanes.
#if defined(FOVEA_KERNELS_SIMD_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_SIMD_GELU_INL_H_
#undef FOVEA_KERNELS_SIMD_GELU_INL_H_
#else
#define FOVEA_KERNELS_SIMD_GELU_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/simd/exp-inl.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 1 / x for x >= 1, to a rounding or two.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Reciprocal(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  // A division takes as long as a dozen multiplications, and keeps them waiting. From 14 bits one
  // step of Newton's leads to 28.
  const V t = hn::ApproximateReciprocal(x);
  return hn::Mul(t, hn::NegMulAdd(x, t, hn::Set(d, 2.0f)));
#else
  return hn::Div(hn::Set(d, 1.0f), x);
#endif
}

// x * Phi(x), Phi the normal distribution function; absolute error under 2e-7 * max(1, |x|).
// Phi(-|x|) by Abramowitz and Stegun, 7.1.26, which loses nothing to cancellation in the tail; its
// coefficients are halved here, and |x| is not yet divided by sqrt(2).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  // An infinity, of which Reciprocal makes NaN, makes the result by itself: itself.
  const V near = hn::Min(hn::Abs(x), hn::Set(d, 1e4f));
  const V t = Reciprocal(d, hn::MulAdd(near, hn::Set(d, 0.3275911f * 0.70710678f), one));
  V p = hn::Set(d, 0.5f * 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, 0.5f * -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.5f * 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.5f * -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.5f * 0.254829592f));
  // exp(-x^2 / 2), but not so small that its products are subnormal, which are slow.
  const V exponent = hn::Max(hn::Mul(hn::Mul(x, x), hn::Set(d, -0.72134752f)), hn::Set(d, -100.0f));
  const V density = Exp2<ExpPrecision::kFp32>(d, exponent);
  const V tail = hn::Mul(hn::Mul(p, t), density);
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)));
}

// The same for results that become bf16: absolute error under 6e-5, and x or 0 beyond +-4.5.
// Phi(x) - 1/2 as x times a polynomial of x^2, fitted so that the largest error of x * Phi(x) is
// least.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluForBf16(D d, V x) {
  const V half = hn::Set(d, 0.5f);
  const V near = hn::Max(hn::Min(x, hn::Set(d, 4.5f)), hn::Set(d, -4.5f));
  const V t = hn::Mul(hn::Mul(near, near), hn::Set(d, 1.0f / 20.25f));
  V p = hn::Set(d, 0x1.b24d9ep-1f);
  p = hn::MulAdd(p, t, hn::Set(d, -0x1.257576p+2f));
  p = hn::MulAdd(p, t, hn::Set(d, 0x1.5cae56p+3f));
  p = hn::MulAdd(p, t, hn::Set(d, -0x1.e2e2b4p+3f));
  p = hn::MulAdd(p, t, hn::Set(d, 0x1.b4fa04p+3f));
  p = hn::MulAdd(p, t, hn::Set(d, -0x1.135a92p+3f));
  p = hn::MulAdd(p, t, hn::Set(d, 0x1.f6de90p+1f));
  p = hn::MulAdd(p, t, hn::Set(d, -0x1.5606b4p+0f));
  p = hn::MulAdd(p, t, hn::Set(d, 0x1.984710p-2f));
  return hn::Mul(x, hn::MulAdd(near, p, half));
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
