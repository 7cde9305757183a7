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

}  // namespace fovea::models
