// Linear layers one after the other over the same tokens, with the norms, activations and residuals
// around them.
//   Prepared for a processor that kernels/linear runs on, a tile of tokens goes through all of them
//   before the next one does, and what lies between two layers is never stored.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "kernels/linear/linear_chain.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/star_relu.h"

namespace fovea::models {

using kernels::Residual;

// residual_scale * residual + activation(linear(norm(x))).
struct LinearLink {
  const Linear* linear = nullptr;
  const LayerNorm* norm = nullptr;      // null: none
  bool gelu = false;                    // the exact one
  const StarRelu* star_relu = nullptr;  // null: none
  Residual residual = Residual::kNone;
  at::Tensor residual_scale;  // [out]; undefined: 1
};

// tokens [..., in of the first link] -> [..., out of the last]. `given` is what Residual::kGiven
// stands for.
// Arguments passed by value are released after their last use.
at::Tensor RunLinears(std::span<const LinearLink> links, at::Tensor tokens, at::Tensor given = {});

// linear(norm(tokens)), or without a norm where it is null.
at::Tensor RunNormed(const Linear& linear, const LayerNorm* norm, const at::Tensor& tokens);

}  // namespace fovea::models
