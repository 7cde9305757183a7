#include "kernels/attention/shared/activation.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/attention/shared/token_sets.h"

namespace fovea::kernels {

Activation CheckedActivation(const Contract& contract, std::string_view name, double scale,
                             double bias) {
  contract.IsOneOf("activation", name, {"softmax", "gelu", "relu", "star_relu"});
  contract.IsFinite("activation_scale", scale);
  contract.IsFinite("activation_bias", bias);
  if (name == "star_relu") return {ActivationKind::kStarRelu, scale, bias};
  contract.IsDefault("activation_scale", scale, 1.0, "only star_relu has one");
  contract.IsDefault("activation_bias", bias, 0.0, "only star_relu has one");
  if (name == "gelu") return {ActivationKind::kGelu, 1.0, 0.0};
  if (name == "relu") return {ActivationKind::kRelu, 1.0, 0.0};
  return {ActivationKind::kSoftmax, 1.0, 0.0};
}

at::Tensor ApplyActivation(const Activation& activation, const at::Tensor& logits) {
  switch (activation.kind) {
    case ActivationKind::kSoftmax:
      return SoftmaxOrZero(logits);
    case ActivationKind::kGelu:
      return at::gelu(logits);
    case ActivationKind::kRelu:
      return at::relu(logits);
    case ActivationKind::kStarRelu:
      return at::relu(logits).square() * activation.scale + activation.bias;
  }
  TORCH_INTERNAL_ASSERT(false, "no such activation");
}

}  // namespace fovea::kernels
