// A feature pyramid from a single map.
//   ViTDet (Li et al. 2022), section 3: a plain backbone's last map at four scales. Theirs learns
//   the scaling; this one has nothing to learn, which leaves that to the neck behind it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea::models {

// map [N, channels, height, width] -> the same at 4, 2, 1 and 1/2 times its size: bilinear, and the
// largest of 2x2 (an odd last row or column by itself).
std::vector<at::Tensor> SimplePyramid(const at::Tensor& map);

// What they are, for ModelInfo::features; `stride` is the map's.
std::vector<ModelInfo::FeatureMap> SimplePyramidFeatures(int64_t channels, int64_t stride);

}  // namespace fovea::models
