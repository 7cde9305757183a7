// y = x W^T + b, and the two things that follow it often enough to be done while y is still in the
// cache. More of what stands around linear layers is linear_chain.h's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/linear/onednn_linear.h"
#include "kernels/linear/packed_matrix.h"
#include "model_zoo/layers/layer.h"

namespace fovea::models {

// What activations are between linear layers in 8 bits (Placement::int8): BF16 or FP32.
c10::ScalarType Int8ActivationType();

// Parameters `weight` [out, in] and `bias` [out], as torch's Linear.
class Linear final : public Layer {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  // For layers that are published as something else, such as a convolution whose stride is its
  // kernel: `weight` has this shape, and all but its first extent are the input's.
  explicit Linear(at::IntArrayRef weight_shape, bool bias = true);
  // Shares the weight [out, ...] and the bias (undefined: none) of a layer that is published as
  // something else and, once prepared, runs as this one. Without gradients.
  Linear(const at::Tensor& weight, const at::Tensor& bias);

  // input [..., in] -> [..., out].
  at::Tensor forward(const at::Tensor& input) const;
  // gelu(forward(input)), with the exact GELU (erf).
  at::Tensor ForwardGelu(const at::Tensor& input) const;
  // residual + forward(input); residual [..., out].
  at::Tensor ForwardAdd(const at::Tensor& input, const at::Tensor& residual) const;

  // Takes scale * x + shift (FP32 [in]) in place of its input x from now on. Before Prepare, for
  // good: how a batch norm before it is folded.
  void FoldInput(const at::Tensor& scale, const at::Tensor& shift);

  // Stays in the activations' type where a model's linear layers run in 8 bits: what reads pixels,
  // and what gives the answer. Before Prepare.
  void KeepPrecision() { keeps_precision_ = true; }
  bool keeps_precision() const { return keeps_precision_; }

  // Of a layer that runs in 8 bits: what a step of each channel of its input stands for, FP32 [in],
  // instead of each row's largest value over 127 (kernels/linear/packed_matrix.h). A weight file
  // holds them as `input_scales` beside `weight`. Before Prepare. Throws c10::ValueError where
  // they are of another shape, or not finite and positive.
  void SetInputScales(const at::Tensor& scales);
  // Undefined without any.
  const at::Tensor& input_scales() const { return input_scales_; }

  // [out, in], FP32. Before Prepare.
  at::Tensor Weight() const { return weight_.detach().flatten(1); }
  // Called with every input [..., in] until Prepare, null for none: how scales are found.
  using SeeInput = std::function<void(const at::Tensor&)>;
  void Watch(SeeInput see) { see_ = std::move(see); }

  // The weight as kernels/linear reads it; null where that does not run, or before Prepare.
  const kernels::PackedMatrix* matrix() const { return packed_matrix_.get(); }

  // Packs the weight for the fastest way that this machine has on the CPU
  // (kernels/linear/linear_way.h), and gives up the published one; otherwise moves and casts.
  // Throws c10::ValueError where it is to run in 8 bits and the processor has no way to.
  void Prepare(const Placement& placement) override;
  void ShareWeights(const Layer& loaded) override;

 private:
  int64_t OwnBytes() const override;

  at::Tensor weight_;
  at::Tensor bias_;  // undefined without one
  at::Tensor input_scales_;
  bool keeps_precision_ = false;
  SeeInput see_;
  // At most one of them.
  std::shared_ptr<const kernels::PackedMatrix> packed_matrix_;
  std::optional<kernels::OneDnnLinear> onednn_;
};

}  // namespace fovea::models
