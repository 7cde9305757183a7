// Cuts an image into patches that do not overlap and projects each to a token.
//   Dosovitskiy et al. 2021, equation 1. timm's names: a convolution `proj` whose stride is its
//   kernel, computed here as the matrix product that it is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

class PatchEmbed final : public Layer {
 public:
  PatchEmbed(int64_t patch, int64_t channels);
  // With a layer norm `norm` behind it, as hierarchical backbones have.
  PatchEmbed(int64_t patch, int64_t channels, double norm_epsilon);

  // pixels FP32 [N, 3, H, W], H and W multiples of the patch -> tokens
  // [N, (H/patch)*(W/patch), channels], row by row.
  at::Tensor forward(const at::Tensor& pixels) const;

 private:
  // [N, H/patch, W/patch, 3, patch, patch] of the activations' type, contiguous.
  at::Tensor Patches(const at::Tensor& pixels) const;

  const int64_t patch_;
  const std::shared_ptr<Linear> proj_;  // `weight` [channels, 3, patch, patch]
  std::shared_ptr<LayerNorm> norm_;     // null without one
};

}  // namespace fovea::models
