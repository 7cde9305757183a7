#include "model_zoo/layers/token_map.h"

#include <ATen/ATen.h>

namespace fovea::models {

at::Tensor TokensToMap(const at::Tensor& tokens, int64_t height, int64_t width) {
  const int64_t places = height * width;
  return tokens.narrow(1, tokens.size(1) - places, places)
      .unflatten(1, {height, width})
      .permute({0, 3, 1, 2});
}

at::Tensor MapToTokens(const at::Tensor& map) {
  return map.flatten(2).transpose(1, 2).contiguous();
}

}  // namespace fovea::models
