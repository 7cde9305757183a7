// bf16 in lanes, held as the upper halves of 32-bit words.
#if defined(FOVEA_KERNELS_SIMD_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_SIMD_BF16_INL_H_
#undef FOVEA_KERNELS_SIMD_BF16_INL_H_
#else
#define FOVEA_KERNELS_SIMD_BF16_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bits of `x` rounded to bf16 (to nearest, ties to even) in the upper half, the lower half
// arbitrary. NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundToBf16(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const auto nan = hn::Set(du, 0x7FC00000u);
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), nan, rounded);
}

// The same for 0 <= x < infinity, ties away from zero: cheaper.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundPositiveToBf16(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  (void)d;
  return hn::Add(hn::BitCast(du, x), hn::Set(du, 0x8000u));
}

// The upper halves of two words as a pair: `first` at the lower address.
template <class V>
HWY_INLINE V PairBf16(V first, V second) {
  const hn::DFromV<V> du;
  return hn::Or(hn::ShiftRight<16>(first), hn::And(second, hn::Set(du, 0xFFFF0000u)));
}

// One vector of bf16, widened.
HWY_INLINE hn::Vec<hn::ScalableTag<float>> LoadBf16(const uint16_t* src) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, src))));
}

#if HWY_TARGET == HWY_AVX3
// Two vectors as bf16, `first` at the lower addresses, rounded by the processor, to nearest and
// ties to even: where HasBf16Instructions(). Highway 1.0 does not know how.
HWY_INLINE void StoreBf16(hn::Vec<hn::ScalableTag<float>> first,
                          hn::Vec<hn::ScalableTag<float>> second, uint16_t* to) {
  const hn::ScalableTag<uint16_t> d;
  hn::Vec<decltype(d)> rounded;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(rounded.raw) : "v"(second.raw), "v"(first.raw));
  hn::StoreU(rounded, d, to);
}
#endif

HWY_INLINE float Bf16At(uint16_t bf16) {
  const uint32_t bits = static_cast<uint32_t>(bf16) << 16;
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

HWY_INLINE void Bf16ToFp32(const uint16_t* src, int64_t count, float* dst) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(LoadBf16(src + i), d, dst + i);
  for (; i < count; ++i) dst[i] = Bf16At(src[i]);
}

HWY_INLINE void Fp32ToBf16(const float* src, int64_t count, uint16_t* dst) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(du)> dh;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::ShiftRight<16>(RoundToBf16(d, hn::LoadU(d, src + i)));
    // Saturating, which does nothing to values of 16 bits.
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(hn::RebindToSigned<decltype(du)>(), bits)), dh,
               dst + i);
  }
  const hn::CappedTag<float, 1> d1;
  for (; i < count; ++i) {
    dst[i] = static_cast<uint16_t>(hn::GetLane(RoundToBf16(d1, hn::LoadU(d1, src + i))) >> 16);
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
