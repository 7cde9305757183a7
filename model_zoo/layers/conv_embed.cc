#include "model_zoo/layers/conv_embed.h"

#include <ATen/ATen.h>

namespace fovea::models {

ConvEmbed::ConvEmbed(const Conv2dOptions& convolution, double norm_epsilon)
    : convolution_(convolution),
      conv_(Add<Conv2d>("conv", convolution)),
      norm_(Add<LayerNorm>("norm", convolution.out, norm_epsilon)) {}

at::Tensor ConvEmbed::forward(const at::Tensor& map) const {
  // With its channels side by side the output is read as tokens in place.
  const at::Tensor input = map.to(map.options().dtype(activations()), /*non_blocking=*/false,
                                  /*copy=*/false, at::MemoryFormat::ChannelsLast);
  return norm_->forward(conv_->forward(input).permute({0, 2, 3, 1}).flatten(1, 2));
}

Grid ConvEmbed::Embedded(int64_t height, int64_t width) const {
  const auto embedded = [&](int axis, int64_t size) {
    return (size + 2 * convolution_.padding[axis] - convolution_.kernel[axis]) /
               convolution_.stride[axis] +
           1;
  };
  return {.height = embedded(0, height), .width = embedded(1, width)};
}

}  // namespace fovea::models
