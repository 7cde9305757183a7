// The map that a sequence of tokens spells.
#pragma once

#include <cstdint>

namespace fovea::models {

// Row by row, behind `prefix_tokens` tokens (class, distillation) without a place.
struct Grid {
  int64_t height = 0;
  int64_t width = 0;
  int64_t prefix_tokens = 0;

  int64_t tokens() const { return prefix_tokens + height * width; }
  bool operator==(const Grid&) const = default;
};

}  // namespace fovea::models
