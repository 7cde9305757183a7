// Overlaps of one box with many, a vector of them at a time.
//
// Compiled with -ffp-contract=off: a fused multiply-add rounds once where torchvision rounds twice,
// and an overlap that falls on the threshold would be decided otherwise.
#include "kernels/vision/nms/cpu_overlaps.h"

#include <cstdint>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vision/nms/cpu_overlaps.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using nms::Columns;

// std::max and std::min, also where a NaN is involved.
template <class V>
HWY_INLINE V Larger(V a, V b) {
  return hn::IfThenElse(hn::Lt(a, b), b, a);
}
template <class V>
HWY_INLINE V Smaller(V a, V b) {
  return hn::IfThenElse(hn::Lt(b, a), b, a);
}

template <class T>
bool OverlapsAnyOf(const T* box, const Columns<T>& columns, int64_t count, T threshold) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  const auto x1 = hn::Set(d, box[0]), y1 = hn::Set(d, box[1]);
  const auto x2 = hn::Set(d, box[2]), y2 = hn::Set(d, box[3]);
  const auto area = hn::Mul(hn::Sub(x2, x1), hn::Sub(y2, y1));
  const auto limit = hn::Set(d, threshold);
  // Boxes that do not meet, which most do not, have no overlap to divide for.
  const bool meeting_only = threshold >= T(0);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto left = Larger(hn::LoadU(d, columns.x1 + i), x1);
    const auto top = Larger(hn::LoadU(d, columns.y1 + i), y1);
    const auto right = Smaller(hn::LoadU(d, columns.x2 + i), x2);
    const auto bottom = Smaller(hn::LoadU(d, columns.y2 + i), y2);
    const auto width = Larger(zero, hn::Sub(right, left));
    const auto height = Larger(zero, hn::Sub(bottom, top));
    const auto intersection = hn::Mul(width, height);
    auto candidates = hn::FirstN(d, count - i);
    if (meeting_only) candidates = hn::And(candidates, hn::Ne(intersection, zero));
    if (hn::AllFalse(d, candidates)) continue;
    const auto both = hn::Add(hn::LoadU(d, columns.area + i), area);
    const auto overlap = hn::Div(intersection, hn::Sub(both, intersection));
    if (!hn::AllFalse(d, hn::And(candidates, hn::Gt(overlap, limit)))) return true;
  }
  return false;
}

}  // namespace

bool OverlapsAnyFloat(const float* box, const Columns<float>& columns, int64_t count,
                      float threshold) {
  return OverlapsAnyOf(box, columns, count, threshold);
}
bool OverlapsAnyDouble(const double* box, const Columns<double>& columns, int64_t count,
                       double threshold) {
  return OverlapsAnyOf(box, columns, count, threshold);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::nms {

bool OverlapsAny(const float* box, const Columns<float>& columns, int64_t count, float threshold) {
  return FOVEA_SIMD_CHOOSE(OverlapsAnyFloat)(box, columns, count, threshold);
}

bool OverlapsAny(const double* box, const Columns<double>& columns, int64_t count,
                 double threshold) {
  return FOVEA_SIMD_CHOOSE(OverlapsAnyDouble)(box, columns, count, threshold);
}

}  // namespace fovea::kernels::nms
#endif  // HWY_ONCE
