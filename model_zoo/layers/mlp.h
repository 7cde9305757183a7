// The two-layer perceptron of a transformer block: fc2(gelu(fc1(x))), exact GELU.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>

#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/linear_chain.h"

namespace fovea::models {

class Mlp final : public Layer {
 public:
  Mlp(int64_t channels, int64_t hidden);

  // [..., channels] -> [..., channels]. The input by value: given up by its caller, it does not
  // live beside the hidden map's product.
  at::Tensor forward(at::Tensor input) const;
  // The two layers behind `norm`; the second adds what the first is given, before the norm.
  std::array<LinearLink, 2> Links(const LayerNorm& norm) const;
  // residual + forward(input).
  at::Tensor ForwardAdd(at::Tensor input, const at::Tensor& residual) const;

 private:
  const std::shared_ptr<Linear> fc1_;
  const std::shared_ptr<Linear> fc2_;
};

}  // namespace fovea::models
