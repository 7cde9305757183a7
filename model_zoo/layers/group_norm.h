// Group normalisation of maps [N, channels, height, width].
//   Wu and He, ECCV 2018. Parameters `weight` and `bias` [channels], as torch's GroupNorm.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model_zoo/layers/layer.h"

namespace fovea::models {

class GroupNorm final : public Layer {
 public:
  // `groups` divides `channels`.
  GroupNorm(int64_t groups, int64_t channels, double epsilon = 1e-5);

  at::Tensor forward(const at::Tensor& map) const;

 private:
  const int64_t groups_;
  const double epsilon_;
  const at::Tensor weight_;
  const at::Tensor bias_;
};

}  // namespace fovea::models
