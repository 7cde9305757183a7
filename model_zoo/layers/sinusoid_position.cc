#include "model_zoo/layers/sinusoid_position.h"

#include <ATen/ATen.h>

#include <cmath>

namespace fovea::models {

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
