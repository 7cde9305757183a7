// A map that is filled up with zero tokens until windows divide it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

#include "model_zoo/layers/grid.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

// `side` on both axes, or the map's extent where that is less.
std::array<int64_t, 2> WithinMap(int64_t side, const Grid& grid);

// The tokens of a grid (without prefix tokens) and the map of whole windows that they lie in: at
// its top left, or, where `shift` is given, so that rolling the map by -shift leaves the grid
// rolled by -shift at the top left. timm rolls a grid before it pads it. What is padded takes part
// in attention, as torchvision's Swin has it: a projection makes of it what it makes of a zero
// token.
class PaddedMap {
 public:
  PaddedMap(const Grid& grid, const std::array<int64_t, 2>& window,
            const std::array<int64_t, 2>& shift = {0, 0});

  const std::array<int64_t, 2>& size() const { return size_; }  // height and width, padded

  // tokens [B, grid.tokens(), channels] -> [B, height, width, channels]; a view where nothing is
  // padded.
  at::Tensor Pad(const at::Tensor& tokens) const;
  // linear(Pad(norm(tokens))), or without a norm where it is null.
  at::Tensor ProjectNormed(const Linear& linear, const LayerNorm* norm,
                           const at::Tensor& tokens) const;
  // And back.
  at::Tensor Crop(const at::Tensor& map) const;
  // Attention weights [B, heads, height*width, height*width] -> those between the grid's tokens.
  at::Tensor CropWeights(const at::Tensor& weights) const;

 private:
  bool Pads() const { return size_[0] != grid_.height || size_[1] != grid_.width; }
  bool Moves() const { return Pads() && (shift_[0] > 0 || shift_[1] > 0); }

  // Place on the map of each row (axis 0) or column of the grid, int64.
  at::Tensor Places(int axis, c10::Device device) const;

  Grid grid_;
  std::array<int64_t, 2> size_;
  std::array<int64_t, 2> shift_;
};

// Queries, keys and values as one linear layer projects them from such a map: [B, height, width,
// 3 * heads * D] -> [3, B, heads, height, width, D], a view.
at::Tensor SplitQkv(const at::Tensor& projected, int64_t heads);

}  // namespace fovea::models
