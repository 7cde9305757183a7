#include "model_zoo/layers/position_embedding.h"

#include <ATen/ATen.h>

#include <cmath>

namespace fovea::models {

namespace {

// 0 where the places do not fill a square.
int64_t SquareSide(int64_t places) {
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(places)));
  return side * side == places ? side : 0;
}

}  // namespace

bool OfAnotherMap(int64_t places, const std::array<int64_t, 2>& to) {
  return places != to[0] * to[1] || (to[0] != to[1] && SquareSide(places) > 0);
}

at::Tensor ResizePositionEmbedding(const at::Tensor& stored, int64_t prefix_tokens,
                                   const std::array<int64_t, 2>& to) {
  if (stored.dim() != 3 || stored.size(1) <= prefix_tokens) return stored;
  const int64_t places = stored.size(1) - prefix_tokens;
  const int64_t side = SquareSide(places);
  if (side == 0 || !OfAnotherMap(places, to)) return stored;
  const at::Tensor map =
      stored.narrow(1, prefix_tokens, places).transpose(1, 2).unflatten(2, {side, side});
  const at::Tensor resized = ResizePositionMap(map, to);
  return at::cat({stored.narrow(1, 0, prefix_tokens), resized.flatten(2).transpose(1, 2)}, 1);
}

at::Tensor ResizePositionMap(const at::Tensor& stored, const std::array<int64_t, 2>& to) {
  if (stored.dim() != 4 || (stored.size(2) == to[0] && stored.size(3) == to[1])) return stored;
  return at::_upsample_bicubic2d_aa(stored, {to[0], to[1]}, /*align_corners=*/false, std::nullopt,
                                    std::nullopt);
}

at::Tensor SinusoidPositions(int64_t tokens, int64_t channels) {
  const at::Tensor table = at::empty({1, tokens, channels}, at::kFloat);
  auto numbers = table.accessor<float, 3>();
  for (int64_t channel = 0; channel < channels; ++channel) {
    const double exponent = static_cast<double>(channel / 2 * 2) / static_cast<double>(channels);
    const double frequency = std::pow(10000.0, -exponent);
    for (int64_t token = 0; token < tokens; ++token) {
      const double angle = static_cast<double>(token) * frequency;
      numbers[0][token][channel] =
          static_cast<float>(channel % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace fovea::models
