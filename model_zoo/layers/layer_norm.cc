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

kernels::rows::NormTerms LayerNorm::terms() const {
  return {weight_.const_data_ptr<float>(),
          bias_.defined() ? bias_.const_data_ptr<float>() : nullptr, static_cast<float>(epsilon_)};
}

void LayerNorm::Prepare(const Placement& placement) { Layer::Prepare(InFp32OnCpu(placement)); }

}  // namespace fovea::models
