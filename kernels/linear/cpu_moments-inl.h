// Means and variances of rows that are normalised, compiled once per instruction set.
#if defined(FOVEA_KERNELS_LINEAR_CPU_MOMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_LINEAR_CPU_MOMENTS_INL_H_
#undef FOVEA_KERNELS_LINEAR_CPU_MOMENTS_INL_H_
#else
#define FOVEA_KERNELS_LINEAR_CPU_MOMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/linear/cpu_rows-inl.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of rows that are normalised: (x - mean) * factor, in every lane.
template <int kRows>
struct Moments {
  VF mean[kRows], factor[kRows];
};

// In two passes. Rows at a time, whose sums do not wait for each other.
template <int kRows, class T>
HWY_INLINE Moments<kRows> MomentsOf(const T* const (&rows)[kRows], int64_t columns, float epsilon) {
  const DF d;
  const int64_t whole = columns / kLanes * kLanes, rest = columns - whole;
  const VF per_column = hn::Set(d, 1.0f / static_cast<float>(columns));
  Moments<kRows> found;
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) found.mean[i] = found.factor[i] = hn::Zero(d);
  for (int64_t c = 0; c < whole; c += kLanes) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) found.mean[i] = hn::Add(found.mean[i], Load(rows[i] + c));
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    if (rest > 0) found.mean[i] = hn::Add(found.mean[i], LoadSome(rows[i] + whole, rest));
    found.mean[i] = hn::Mul(hn::SumOfLanes(d, found.mean[i]), per_column);
  }
  for (int64_t c = 0; c < whole; c += kLanes) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      const VF centred = hn::Sub(Load(rows[i] + c), found.mean[i]);
      found.factor[i] = hn::MulAdd(centred, centred, found.factor[i]);
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    if (rest > 0) {
      const VF centred =
          hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(rest)),
                             hn::Sub(LoadSome(rows[i] + whole, rest), found.mean[i]));
      found.factor[i] = hn::MulAdd(centred, centred, found.factor[i]);
    }
    const VF variance = hn::Mul(hn::SumOfLanes(d, found.factor[i]), per_column);
    found.factor[i] = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(variance, hn::Set(d, epsilon))));
  }
  return found;
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
