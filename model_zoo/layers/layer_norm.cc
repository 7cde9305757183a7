#include "model_zoo/layers/layer_norm.h"

#include <ATen/ATen.h>

#include <cmath>

namespace fovea::models {
namespace {

// Each token's deviation over that which epsilon alone makes, [..., 1], at most 1.
at::Tensor SpreadOverNoise(const at::Tensor& input, double epsilon) {
  const at::Tensor deviation = at::std(input, at::IntArrayRef{-1}, /*unbiased=*/false,
                                       /*keepdim=*/true);
  return deviation.div_(std::sqrt(epsilon)).clamp_max_(1);
}

}  // namespace

LayerNorm::LayerNorm(int64_t channels, double epsilon, bool bias)
    : channels_(channels), epsilon_(epsilon), weight_(AddParameter("weight", {channels})) {
  if (bias) bias_ = AddParameter("bias", {channels});
}

at::Tensor LayerNorm::forward(const at::Tensor& input) const {
  if (!at::GradMode::is_enabled() || !input.requires_grad()) {
    return at::layer_norm(input, {channels_}, weight_, bias_, epsilon_);
  }
  const at::Tensor normalised = input.view_as(input);  // of its own, for the hook to see this use
  normalised.register_hook([spread = SpreadOverNoise(input.detach(), epsilon_)](
                               const at::Tensor& gradient) { return gradient * spread; });
  return at::layer_norm(normalised, {channels_}, weight_, bias_, epsilon_);
}

kernels::rows::NormTerms LayerNorm::terms() const {
  return {weight_.const_data_ptr<float>(),
          bias_.defined() ? bias_.const_data_ptr<float>() : nullptr, static_cast<float>(epsilon_)};
}

void LayerNorm::Prepare(const Placement& placement) { Layer::Prepare(InFp32OnCpu(placement)); }

}  // namespace fovea::models
