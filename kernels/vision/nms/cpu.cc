// Non-maximum suppression on the CPU.
//
// Each box is compared with the kept ones only, which lie together, until one overlaps it. One
// thread: every box waits for those before it, and a few thousand take less time than sharing them
// out block by block would.
#include <ATen/Functions.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/vision/nms/cpu_overlaps.h"
#include "kernels/vision/nms/implementations.h"

namespace fovea::kernels {
namespace {

using nms::Columns;

// An overlap in T is more than `iou` where it is more than the largest T that is not.
template <class T>
T ThresholdOf(double iou) {
  const T nearest = static_cast<T>(iou);
  return static_cast<double>(nearest) > iou
             ? std::nextafter(nearest, -std::numeric_limits<T>::infinity())
             : nearest;
}

template <class T>
void Suppress(const NmsInputs& in, bool* keep) {
  const int64_t count = in.boxes.size(0);
  const T* const boxes = in.boxes.const_data_ptr<T>();
  const T threshold = ThresholdOf<T>(in.iou);
  const int64_t row = (count + nms::kPadding - 1) / nms::kPadding * nms::kPadding;
  const at::Tensor scratch = at::empty({5, row}, in.boxes.options());
  T* const memory = scratch.mutable_data_ptr<T>();
  const Columns<T> kept{memory, memory + row, memory + 2 * row, memory + 3 * row, memory + 4 * row};
  int64_t kept_count = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T* box = boxes + 4 * i;
    keep[i] = !nms::OverlapsAny(box, kept, kept_count, threshold);
    if (keep[i]) kept.Set(kept_count++, box);
  }
}

}  // namespace

void NmsCpu(const NmsInputs& in, const at::Tensor& keep) {
  const auto suppress =
      in.boxes.scalar_type() == at::kDouble ? &Suppress<double> : &Suppress<float>;
  suppress(in, keep.mutable_data_ptr<bool>());
}

}  // namespace fovea::kernels
