// Tokens as a map, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::models {

// Tokens [N, prefix + height*width, channels] as a map [N, channels, height, width], its channels
// contiguous in memory (a view); the prefix tokens are left out.
at::Tensor TokensToMap(const at::Tensor& tokens, int64_t height, int64_t width);

// And back, [N, channels, height, width] -> [N, height*width, channels], contiguous: a view of a
// map whose channels are contiguous in memory.
at::Tensor MapToTokens(const at::Tensor& map);

}  // namespace fovea::models
