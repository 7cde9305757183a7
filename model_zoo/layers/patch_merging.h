// Halves a map: each 2x2 neighbours become one token of more channels.
//   Swin Transformer (Liu et al., ICCV 2021), section 3.1. timm's names `norm` (over the four
//   neighbours' channels) and `reduction` (without a bias); an odd map is padded with zeros at the
//   bottom and at the right.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model_zoo/layers/grid.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

class PatchMerging final : public Layer {
 public:
  PatchMerging(int64_t in, int64_t out, double norm_epsilon = 1e-5);

  // tokens [B, grid.tokens(), in] -> [B, Merged(grid).tokens(), out]; no prefix tokens.
  at::Tensor forward(const at::Tensor& tokens, const Grid& grid) const;

  static Grid Merged(const Grid& grid) {
    return {.height = (grid.height + 1) / 2, .width = (grid.width + 1) / 2};
  }

 private:
  const std::shared_ptr<LayerNorm> norm_;
  const std::shared_ptr<Linear> reduction_;
};

}  // namespace fovea::models
