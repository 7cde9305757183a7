// The seam between cpu.cc, which knows tensors, and cpu_overlaps.cc, which is compiled
// once per instruction set and knows only memory.
#pragma once
#include <cstdint>

namespace fovea::kernels::nms {

// Boxes, a coordinate at a time, so that a vector is neighbouring boxes.
template <class T>
struct Columns {
  T* x1;
  T* y1;
  T* x2;
  T* y2;
  T* area;

  void Set(int64_t i, const T* box) const {
    x1[i] = box[0];
    y1[i] = box[1];
    x2[i] = box[2];
    y2[i] = box[3];
    area[i] = (box[2] - box[0]) * (box[3] - box[1]);
  }
};

// Columns must be readable up to a multiple of this many boxes.
inline constexpr int64_t kPadding = 16;

// Whether `box` (x1, y1, x2, y2) overlaps any of columns' first `count` boxes by more than
// `threshold`.
bool OverlapsAny(const float* box, const Columns<float>& columns, int64_t count, float threshold);
bool OverlapsAny(const double* box, const Columns<double>& columns, int64_t count,
                 double threshold);

}  // namespace fovea::kernels::nms
