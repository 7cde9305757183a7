// What turns the logits of static-key attention into weights.
//   Static Key Attention in Vision, section 4.3 and Table 6; StarReLU: MetaFormer Baselines for
//   Vision (Yu et al., 2022), equation 5.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/contract.h"

namespace fovea::kernels {

// Softmax normalises a row; the others apply to each logit by itself and normalise nothing.
enum class ActivationKind {
  kSoftmax,
  kGelu,      // x * Phi(x), exact
  kRelu,      // max(x, 0)
  kStarRelu,  // scale * max(x, 0)^2 + bias
};

struct Activation {
  ActivationKind kind;
  double scale;  // of kStarRelu
  double bias;   // of kStarRelu
};

// From an operator's arguments: name "softmax", "gelu", "relu" or "star_relu", scale and bias
// finite and, but for star_relu, 1 and 0. Throws c10::Error.
Activation CheckedActivation(const Contract& contract, std::string_view name, double scale,
                             double bias);

// The definition, in plain ATen. Softmax goes along the last dimension.
at::Tensor ApplyActivation(const Activation& activation, const at::Tensor& logits);

}  // namespace fovea::kernels
