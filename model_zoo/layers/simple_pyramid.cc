#include "model_zoo/layers/simple_pyramid.h"

#include <ATen/ATen.h>

namespace fovea::models {

std::vector<at::Tensor> SimplePyramid(const at::Tensor& map) {
  const auto enlarged = [&](int64_t times) {
    return at::upsample_bilinear2d(map, {map.size(2) * times, map.size(3) * times},
                                   /*align_corners=*/false);
  };
  return {enlarged(4), enlarged(2), map,
          at::max_pool2d(map, /*kernel_size=*/2, /*stride=*/2, /*padding=*/0, /*dilation=*/1,
                         /*ceil_mode=*/true)};
}

std::vector<ModelInfo::FeatureMap> SimplePyramidFeatures(int64_t channels, int64_t stride) {
  return {
      {channels, stride / 4}, {channels, stride / 2}, {channels, stride}, {channels, stride * 2}};
}

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
