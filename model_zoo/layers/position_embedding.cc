#include "model_zoo/layers/position_embedding.h"

#include <ATen/ATen.h>

#include <cmath>

namespace fovea::models {
namespace {

// map [1, channels, height, width].
at::Tensor ResizeMap(const at::Tensor& map, const std::array<int64_t, 2>& to) {
  return at::_upsample_bicubic2d_aa(map, {to[0], to[1]}, /*align_corners=*/false, std::nullopt,
                                    std::nullopt);
}

}  // namespace

at::Tensor ResizePositionEmbedding(const at::Tensor& stored, int64_t prefix_tokens,
                                   const std::array<int64_t, 2>& to) {
  if (stored.dim() != 3 || stored.size(1) <= prefix_tokens ||
      stored.size(1) == prefix_tokens + to[0] * to[1]) {
    return stored;
  }
  const int64_t places = stored.size(1) - prefix_tokens;
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(places)));
  if (side * side != places) return stored;
  const at::Tensor map =
      stored.narrow(1, prefix_tokens, places).transpose(1, 2).unflatten(2, {side, side});
  const at::Tensor resized = ResizeMap(map, to);
  return at::cat({stored.narrow(1, 0, prefix_tokens), resized.flatten(2).transpose(1, 2)}, 1);
}

at::Tensor ResizePositionMap(const at::Tensor& stored, const std::array<int64_t, 2>& to) {
  if (stored.dim() != 4 || (stored.size(1) == to[0] && stored.size(2) == to[1])) return stored;
  return ResizeMap(stored.permute({0, 3, 1, 2}), to).permute({0, 2, 3, 1});
}

}  // namespace fovea::models
