#include "model_zoo/layers/mlp.h"

#include <utility>

namespace fovea::models {

Mlp::Mlp(int64_t channels, int64_t hidden)
    : fc1_(Add<Linear>("fc1", channels, hidden)), fc2_(Add<Linear>("fc2", hidden, channels)) {}

at::Tensor Mlp::forward(at::Tensor input) const {
  const std::array<LinearLink, 2> links = {LinearLink{.linear = fc1_.get(), .gelu = true},
                                           LinearLink{.linear = fc2_.get()}};
  return RunLinears(links, std::move(input));
}

at::Tensor Mlp::ForwardAdd(at::Tensor input, const at::Tensor& residual) const {
  const std::array<LinearLink, 2> links = {
      LinearLink{.linear = fc1_.get(), .gelu = true},
      LinearLink{.linear = fc2_.get(), .residual = Residual::kGiven}};
  return RunLinears(links, std::move(input), residual);
}

std::array<LinearLink, 2> Mlp::Links(const LayerNorm& norm) const {
  return {LinearLink{.linear = fc1_.get(), .norm = &norm, .gelu = true},
          LinearLink{.linear = fc2_.get(), .residual = Residual::kInput}};
}

}  // namespace fovea::models
