// Layer normalisation over the channels, with learned `weight` and, by default, `bias` [channels].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/linear/cpu_rows.h"
#include "model_zoo/layers/layer.h"

namespace fovea::models {

//   The derivative of a norm is one over a token's deviation, a thousand for a token of equal
// channels: through padding, which every layer of a fresh model leaves at zero, gradients would
// grow a thousandfold by each norm. So the gradient of a token is scaled down as far as its
// deviation lies below sqrt(epsilon), to nothing where the channels are equal. Outputs are as
// published.
class LayerNorm final : public Layer {
 public:
  // timm's vision transformers take 1e-6 where torch takes 1e-5.
  explicit LayerNorm(int64_t channels, double epsilon = 1e-6, bool bias = true);

  at::Tensor forward(const at::Tensor& input) const;  // [..., channels]; statistics in fp32

  // Of the prepared one on the CPU, for as long as it lives.
  kernels::rows::NormTerms terms() const;

  // On the CPU weight and bias stay in fp32.
  void Prepare(const Placement& placement) override;

 private:
  const int64_t channels_;
  const double epsilon_;
  at::Tensor weight_;
  at::Tensor bias_;  // undefined without one
};

}  // namespace fovea::models
