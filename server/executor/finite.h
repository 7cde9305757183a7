// Whether a model's output is numbers.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <numeric>

namespace fovea {

// `values` are floats on the CPU, contiguous.
inline bool AllFinite(const at::Tensor& values) {
  // A sum is finite exactly when no NaN or infinity is in it, short of an overflow in double, which
  // floats cannot reach.
  const float* data = values.const_data_ptr<float>();
  return std::isfinite(std::accumulate(data, data + values.numel(), 0.0));
}

}  // namespace fovea
