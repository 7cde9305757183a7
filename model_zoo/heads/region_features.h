// A small map of features for each region, from the map of a pyramid that suits its size.
//   Lin et al., CVPR 2017, equation 1; He et al., ICCV 2017, section 3 (RoIAlign).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea::models {

// The places in `strides` of the maps that suit `boxes` (FP32 [M, 4]): INT64 [M]. A box of 224x224
// goes to the map of stride 16, one of twice its sides to the next coarser one, one without area to
// the finest one; -1 for one that is no number.
at::Tensor LevelsOf(const at::Tensor& boxes, std::span<const int64_t> strides);

// pyramid: [N, channels, height, width] at `strides`. boxes: of each image, FP32 [M, 4] in pixels
// of the input. Returns [all of them, channels, side, side], image by image.
//   TORCHVISION takes two samples a bin and axis and is half a pixel off (sampling 2, not aligned),
//   MMDETECTION takes one for each pixel.
at::Tensor RegionFeatures(const std::vector<at::Tensor>& pyramid, std::span<const int64_t> strides,
                          const std::vector<at::Tensor>& boxes, int64_t side,
                          Conventions conventions);

}  // namespace fovea::models
