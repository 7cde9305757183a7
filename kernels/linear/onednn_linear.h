// A linear layer in oneDNN's own weight layout, which is chosen once instead of at every call.
//   Through the dispatcher: mkldnn::_reorder_linear_weight and mkldnn::_linear_pointwise are
//   private to LibTorch 2.11.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// Inference only. Thread-safe.
class OneDnnLinear {
 public:
  // Whether this machine's oneDNN runs linear layers in that type on the CPU.
  static bool Supports(c10::ScalarType type);

  // weight [out, in], bias [out] or undefined; cast to `type`.
  OneDnnLinear(const at::Tensor& weight, const at::Tensor& bias, c10::ScalarType type);

  // input [..., in] -> [..., out]; with the exact GELU behind it; added to residual [..., out].
  at::Tensor Apply(const at::Tensor& input) const;
  at::Tensor ApplyGelu(const at::Tensor& input) const;
  at::Tensor ApplyAdd(const at::Tensor& input, const at::Tensor& residual) const;

  int64_t bytes() const { return bytes_; }

 private:
  at::Tensor weight_;  // opaque
  std::optional<at::Tensor> bias_;
  int64_t bytes_ = 0;
};

}  // namespace fovea::kernels
