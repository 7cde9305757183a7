#include "model_zoo/training/optimisation/initialisation.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string_view>

namespace fovea::models::training {
namespace {

constexpr std::string_view kOfBackbone = "backbone.";  // behind a head

// [tokens, channels]: a quarter of the channels each for the sines and cosines of columns and rows
// of a square grid; prefix tokens have none.
at::Tensor PositionWaves(int64_t tokens, int64_t channels) {
  constexpr double kSize = 0.5;  // beside tokens of about 1
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(tokens)));
  const int64_t prefix = tokens - side * side, waves = channels / 4;
  at::Tensor embedding = at::zeros({tokens, channels});
  auto out = embedding.accessor<float, 2>();
  for (int64_t i = 0; i < side * side; ++i) {
    for (int64_t wave = 0; wave < waves; ++wave) {
      const double frequency =
          std::pow(10'000.0, -static_cast<double>(wave) / static_cast<double>(waves));
      const double column = static_cast<double>(i % side) * frequency;
      const double row = static_cast<double>(i / side) * frequency;
      const double values[] = {std::sin(column), std::cos(column), std::sin(row), std::cos(row)};
      for (int64_t part = 0; part < 4; ++part) {
        out[prefix + i][part * waves + wave] = static_cast<float>(kSize * values[part]);
      }
    }
  }
  return embedding;
}

// The matrix was drawn with some deviation: gives it that of Glorot and Bengio.
void Rescale(at::Tensor& matrix) {
  const double wanted = std::sqrt(2.0 / static_cast<double>(matrix.size(0) + matrix.size(1)));
  matrix.mul_(wanted / matrix.std().item<double>());
}

}  // namespace

void InitialiseForSmallData(Backbone& backbone) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : backbone.named_parameters()) {
    std::string_view name = parameter.key();
    if (name.starts_with(kOfBackbone)) name.remove_prefix(kOfBackbone.size());
    at::Tensor& tensor = parameter.value();
    if (name == "pos_embed" && tensor.dim() == 3) {  // of tokens; PiT's and VOLO's are maps
      tensor.copy_(PositionWaves(tensor.size(1), tensor.size(2)).unsqueeze(0));
    } else if (name == "head.weight") {
      tensor.zero_();
    } else if (name.starts_with("head.")) {
      continue;  // of detectors and segmenters: as published
    } else if (name.ends_with(".weight") && tensor.dim() == 2) {
      Rescale(tensor);
      if (name.ends_with(".attn.qkv.weight")) {
        const int64_t channels = tensor.size(0) / 3;  // T2T narrows its first tokens here
        tensor.narrow(0, channels, channels).copy_(tensor.narrow(0, 0, channels));
      }
    }
  }
}

}  // namespace fovea::models::training
