// The exact (not tanh) GELU in lanes.
#if defined(FOVEA_KERNELS_SIMD_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_SIMD_GELU_INL_H_
#undef FOVEA_KERNELS_SIMD_GELU_INL_H_
#else
#define FOVEA_KERNELS_SIMD_GELU_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/simd/exp-inl.h"
#include "kernels/simd/normal_table.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
// x * Phi(x) = x / 2 + |x| * (Phi(|x|) - 1/2), the latter by the polynomial of |x|'s segment, whose
// coefficients are looked up in two registers each: fewer operations than one for all x, and on
// units that AMX's products leave idle.
template <size_t kDegree, class D, class V = hn::Vec<D>>
HWY_INLINE V GeluBySegments(D d, V x, const simd::NormalTable<kDegree>& table) {
  const V size = hn::Abs(x);
  // NaN is in x / 2; an infinity is larger than all that is looked up.
  const V near = hn::Min(size, hn::Set(d, table.end));
  // Rounded to the nearest segment, its number then lies in the lowest bits.
  const V round = hn::Set(d, 0x1.8p23f), steps = hn::Set(d, table.steps);
  const V segment = hn::MulAdd(near, steps, round);
  const V from_centre = hn::MulSub(near, steps, hn::Sub(segment, round));
  const auto coefficient = [&](size_t power) HWY_ATTR {
    const auto& of = table.coefficients[power];
    return V{_mm512_permutex2var_ps(_mm512_load_ps(of.data()), _mm512_castps_si512(segment.raw),
                                    _mm512_load_ps(of.data() + 16))};
  };
  V p = coefficient(kDegree);
  HWY_UNROLL(4)
  for (size_t power = kDegree; power-- > 0;) p = hn::MulAdd(p, from_centre, coefficient(power));
  return hn::MulAdd(size, p, hn::Mul(x, hn::Set(d, 0.5f)));
}
#endif

// x * Phi(x), Phi the normal distribution function; absolute error under 2e-7 * max(1, |x|).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  return GeluBySegments(d, x, simd::kNormalForFp32);
#else
  // Phi(-|x|) by Abramowitz and Stegun, 7.1.26, which loses nothing to cancellation in the tail;
  // its coefficients are halved here, and |x| is not yet divided by sqrt(2).
  const V one = hn::Set(d, 1.0f);
  // An infinity, of which the division makes zero, makes the result by itself: itself.
  const V near = hn::Min(hn::Abs(x), hn::Set(d, 1e4f));
  const V t = hn::Div(one, hn::MulAdd(near, hn::Set(d, 0.3275911f * 0.70710678f), one));
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
#endif
}

// The same for results that become bf16: absolute error under 6e-5, and x or 0 beyond +-4.5.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluForBf16(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  return GeluBySegments(d, x, simd::kNormalForBf16);
#else
  // Phi(x) - 1/2 as x times a polynomial of x^2, fitted so that the largest error of x * Phi(x) is
  // least.
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
#endif
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
