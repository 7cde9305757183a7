// Sums over RP-CPE's branches.
#if defined(FOVEA_KERNELS_VISION_RP_CPE_BRANCHES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_VISION_RP_CPE_BRANCHES_INL_H_
#undef FOVEA_KERNELS_VISION_RP_CPE_BRANCHES_INL_H_
#else
#define FOVEA_KERNELS_VISION_RP_CPE_BRANCHES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "kernels/simd/targets.h"
#include "kernels/vision/rp_cpe/cpu_convolve.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using rp_cpe::Branches;
using rp_cpe::Job;
using rp_cpe::kFactors;

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
inline constexpr int64_t kLanes = HWY_TARGET == HWY_AVX3 ? 16 : 8;
inline constexpr int64_t kTaps = 9;

HWY_INLINE VF Widen(const float* from) { return hn::LoadU(DF(), from); }
HWY_INLINE VF Widen(const uint16_t* from) {
  const DU d;
  const hn::Rebind<uint16_t, DU> dh;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(dh, from))));
}
inline float WidenOne(const float* from) { return *from; }
inline float WidenOne(const uint16_t* from) {
  const uint32_t bits = static_cast<uint32_t>(*from) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Elements [first, first + count) of the sum of all branches, `size` elements each.
template <class T>
HWY_INLINE void AddBranches(const void* data, int64_t branches, int64_t size, int64_t first,
                            int64_t count, float* sum) {
  const T* from = static_cast<const T*>(data) + first;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    VF total = Widen(from + i);
    for (int64_t b = 1; b < branches; ++b) total = hn::Add(total, Widen(from + b * size + i));
    hn::StoreU(total, DF(), sum + i);
  }
  for (; i < count; ++i) {
    float total = WidenOne(from + i);
    for (int64_t b = 1; b < branches; ++b) total += WidenOne(from + b * size + i);
    sum[i] = total;
  }
}

HWY_INLINE void AddBranches(const Job& job, const Branches& of, int64_t per_channel, int64_t first,
                            int64_t channels, float* sum) {
  const auto add = of.bf16 ? &AddBranches<uint16_t> : &AddBranches<float>;
  add(of.data, job.branches, job.channels * per_channel, first * per_channel,
      channels * per_channel, sum);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
