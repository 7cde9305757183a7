// A resized image as a model takes it.
#pragma once

#include <ATen/core/Tensor.h>

#include "model_zoo/model_description.h"
#include "server/core/resized_image.h"

namespace fovea {

// As a lane gathers it (cpu_lane.cc), of one image: FP32 [1, 3, height, width], or UINT8
// [1, height, width, 3]. `input` is at least the image's size.
at::Tensor ModelPixels(const ResizedImage& image, const models::ModelInfo& info,
                       const models::ImageSize& input, const models::Preprocessing& preprocessing);

}  // namespace fovea
