// StarReLU: scale * relu(x)^2 + bias, with both numbers learned.
//   MetaFormer Baselines for Vision (Yu et al., 2022), equation 5. timm's names: `scale`, `bias`
//   [1].
#pragma once

#include <ATen/core/Tensor.h>

#include "model_zoo/layers/layer.h"

namespace fovea::models {

class StarRelu final : public Layer {
 public:
  StarRelu();

  // The prepared one overwrites its input and returns it.
  at::Tensor forward(at::Tensor input) const;

  // Of the prepared one.
  double scale() const { return prepared_scale_; }
  double bias() const { return prepared_bias_; }

  void Prepare(const Placement& placement) override;
  void ShareWeights(const Layer& loaded) override;

 private:
  at::Tensor scale_;
  at::Tensor bias_;
  double prepared_scale_ = 1;
  double prepared_bias_ = 0;
};

}  // namespace fovea::models
