// y = x W^T + b, and the two things that follow it often enough to be done while y is still in the
// cache. More of what stands around linear layers is linear_chain.h's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/linear/onednn_linear.h"
#include "kernels/linear/packed_matrix.h"
#include "model_zoo/layers/layer.h"

namespace fovea::models {

// Parameters `weight` [out, in] and `bias` [out], as torch's Linear.
class Linear final : public Layer {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  // For layers that are published as something else, such as a convolution whose stride is its
  // kernel: `weight` has this shape, and all but its first extent are the input's.
  explicit Linear(at::IntArrayRef weight_shape, bool bias = true);

  // input [..., in] -> [..., out].
  at::Tensor forward(const at::Tensor& input) const;
  // gelu(forward(input)), with the exact GELU (erf).
  at::Tensor ForwardGelu(const at::Tensor& input) const;
  // residual + forward(input); residual [..., out].
  at::Tensor ForwardAdd(const at::Tensor& input, const at::Tensor& residual) const;

  // Takes scale * x + shift (FP32 [in]) in place of its input x from now on. Before Prepare, for
  // good: how a batch norm before it is folded.
  void FoldInput(const at::Tensor& scale, const at::Tensor& shift);

  // The weight as kernels/linear reads it; null where that does not run, or before Prepare.
  const kernels::PackedMatrix* matrix() const { return matrix_.get(); }

  // Packs the weight for the fastest way that this machine has on the CPU
  // (kernels/linear/linear_way.h), and gives up the published one; otherwise moves and casts.
  void Prepare(const Placement& placement) override;
  void ShareWeights(const Layer& loaded) override;

 private:
  int64_t OwnBytes() const override;

  at::Tensor weight_;
  at::Tensor bias_;  // undefined without one
  // At most one of them.
  std::shared_ptr<const kernels::PackedMatrix> matrix_;
  std::optional<kernels::OneDnnLinear> packed_;
};

}  // namespace fovea::models
