#include "model_zoo/layers/conv_embed.h"

#include <ATen/ATen.h>

namespace fovea::models {

ConvEmbed::ConvEmbed(const Conv2dOptions& convolution, double norm_epsilon)
    : ConvEmbed(convolution, norm_epsilon, Names()) {}

ConvEmbed::ConvEmbed(const Conv2dOptions& convolution, double norm_epsilon, const Names& names)
    : convolution_(Add<Conv2d>(names.convolution, convolution)),
      norm_(Add<LayerNorm>(names.norm, convolution.out, norm_epsilon)) {}

at::Tensor ConvEmbed::forward(const at::Tensor& map) const {
  // Channels last, so that the places of its output are rows of tokens.
  const at::Tensor embedded =
      convolution_->forward(map.to(map.options().dtype(activations()), /*non_blocking=*/false,
                                   /*copy=*/false, at::MemoryFormat::ChannelsLast));
  return norm_->forward(embedded.permute({0, 2, 3, 1}).flatten(1, 2));
}

Grid ConvEmbed::Embedded(const Grid& grid, const Conv2dOptions& convolution) {
  const auto along = [&](int64_t size, int axis) {
    const int64_t room = size + 2 * convolution.padding[axis] - convolution.kernel[axis];
    TORCH_CHECK_VALUE(room >= 0, "a map of ", grid.height, "x", grid.width,
                      " is too small for a convolution of ", convolution.kernel[0], "x",
                      convolution.kernel[1]);
    return room / convolution.stride[axis] + 1;
  };
  return {.height = along(grid.height, 0), .width = along(grid.width, 1)};
}

}  // namespace fovea::models
