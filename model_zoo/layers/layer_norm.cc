#include "model_zoo/layers/layer_norm.h"

#include <ATen/ATen.h>

namespace fovea::models {

LayerNorm::LayerNorm(int64_t channels, double epsilon, bool bias)
    : channels_(channels), epsilon_(epsilon), weight_(AddParameter("weight", {channels})) {
  if (bias) bias_ = AddParameter("bias", {channels});
}

at::Tensor LayerNorm::forward(const at::Tensor& input) const {
  return at::layer_norm(input, {channels_}, weight_, bias_, epsilon_);
}

}  // namespace fovea::models
