// Blocks one after the other.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/forward_context.h"
#include "model_zoo/layers/grid.h"

namespace fovea::models {

// Each block is given what the one before made of `tokens`, and its name, NAME.0, NAME.1, ...
// Returns Tokens{}, an undefined tensor, when context.ShouldStop() said so between two blocks.
template <typename Block, typename Tokens>
Tokens RunBlocks(const std::vector<std::shared_ptr<Block>>& blocks, Tokens tokens, const Grid& grid,
                 ForwardContext& context, const std::string& name) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (context.ShouldStop()) return Tokens{};
    tokens = blocks[i]->forward(std::move(tokens), grid, context, name + "." + std::to_string(i));
  }
  return tokens;
}

}  // namespace fovea::models
