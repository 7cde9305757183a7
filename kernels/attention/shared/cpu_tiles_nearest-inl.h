// k-NN attention's weights where logits are rows, as AMX's tiles leave them. Compiled once per
// instruction set.
#if defined(FOVEA_KERNELS_ATTENTION_CPU_TILES_NEAREST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_ATTENTION_CPU_TILES_NEAREST_INL_H_
#undef FOVEA_KERNELS_ATTENTION_CPU_TILES_NEAREST_INL_H_
#else
#define FOVEA_KERNELS_ATTENTION_CPU_TILES_NEAREST_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "kernels/attention/shared/select-inl.h"
#include "kernels/attention/shared/select.h"
#include "kernels/simd/targets.h"
#include "kernels/simd/transpose-inl.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

// The logits of a vector of rows, [kLanes][keys], rows `stride` apart, become
// exp2((logit - the row's largest) * scale2) where they are selected, and 0 elsewhere. Returns the
// rows' sums, NaN of a row with a NaN or +inf. `columns`: 2 * keys vectors of scratch.
HWY_INLINE VF WeighNearest(float* logits, int64_t stride, int64_t keys,
                           const knn::Selection& selection, float scale2, float* columns) {
  const DF d;
  float* const weights = columns + keys * kLanes;
  Transpose32(reinterpret_cast<const uint32_t*>(logits), stride, kLanes, keys,
              reinterpret_cast<uint32_t*>(columns), kLanes);
  const LaneRows rows = {columns, keys};
  const LaneMoments moments =
      CopyAndMeasure(columns, kLanes, keys, columns, [](VF s, int64_t) HWY_ATTR { return s; });
  const LaneThreshold threshold = SelectThreshold(rows, selection.topk, moments, selection.rank);
  const VF sums = threshold.any_ties
                      ? SoftmaxAbove<WeightsAs::kFp32, true>(rows, threshold, moments.largest,
                                                             scale2, weights, kLanes)
                      : SoftmaxAbove<WeightsAs::kFp32, false>(rows, threshold, moments.largest,
                                                              scale2, weights, kLanes);
  Transpose32(reinterpret_cast<const uint32_t*>(weights), kLanes, keys, kLanes,
              reinterpret_cast<uint32_t*>(logits), stride);
  return hn::IfThenElse(moments.broken, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), sums);
}

#endif  // AVX-512

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#endif  // toggle
