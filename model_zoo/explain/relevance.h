// Relevance, propagated from a class back to the weights of each attention.
//   Chefer, Gur and Wolf, CVPR 2021, section 3.1: deep Taylor decomposition, which follows positive
//   contributions alone, with normalised shares where two branches meet. Internal to explain/.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/layers/grid.h"

namespace fovea::models {

// Leaves a way back through the model; LibTorch hands on what is a std::exception.
struct Stopped : std::exception {};

// What a residual block did with one image, [1, N, C] each: output = input + attention + mlp.
struct BlockPass {
  std::string layer;
  at::Tensor attention, mlp, output;
  at::Tensor map;  // [1, heads, N, N]; undefined: it has none
};

// The relevance of the weights of each block's attention, [heads, N, N], for the logit of class
// `target`. The backbone is made of plain blocks of self-attention, and its classifier reads the
// first of `grid`'s tokens. None, and `why_not`, of any other. Throws Stopped where `stop` says so,
// which is asked several times in a block.
std::optional<std::vector<at::Tensor>> AttentionRelevance(const Backbone& backbone,
                                                          std::span<const BlockPass> blocks,
                                                          const Grid& grid,
                                                          const at::Tensor& logits, int64_t target,
                                                          const std::function<bool()>& stop,
                                                          std::string* why_not);

}  // namespace fovea::models
