// A convolution in oneDNN's own weight layout, which is chosen once. With a weight in any other,
// each call brings it into that layout first: more work than the convolution itself where channels
// are many and maps small.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>

namespace fovea::kernels {

struct OneDnnConv2dOptions {
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};
  int64_t groups = 1;
};

// Inference only. Thread-safe.
class OneDnnConv2d {
 public:
  // weight [out, in / groups, height, width], bias [out] or undefined; cast to `type`, which
  // onednn::Supports.
  OneDnnConv2d(const at::Tensor& weight, const at::Tensor& bias, const OneDnnConv2dOptions& options,
               c10::ScalarType type);

  // map [N, in, height, width] of that type and any size and memory layout -> [N, out, ...],
  // channels-last.
  at::Tensor Apply(const at::Tensor& map) const;

  int64_t bytes() const { return bytes_; }

 private:
  OneDnnConv2dOptions options_;
  at::Tensor weight_;  // opaque
  std::optional<at::Tensor> bias_;
  int64_t bytes_ = 0;
};

}  // namespace fovea::kernels
