// The two-layer perceptron of a transformer block: fc2(gelu(fc1(x))), exact GELU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model_zoo/layers/linear.h"

namespace fovea::models {

class Mlp final : public Layer {
 public:
  Mlp(int64_t channels, int64_t hidden);

  at::Tensor forward(const at::Tensor& input) const;  // [..., channels] -> [..., channels]
  at::Tensor ForwardAdd(const at::Tensor& input,
                        const at::Tensor& residual) const;  // residual + forward(input)

 private:
  const std::shared_ptr<Linear> fc1_;
  const std::shared_ptr<Linear> fc2_;
};

}  // namespace fovea::models
