// Turns a map into tokens at a lower resolution: a convolution, whose patches may overlap, and a
// layer norm.
//   CvT (Wu et al., ICCV 2021), section 3.2; PVT v2 (Wang et al. 2022), section 3.2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/grid.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/layer_norm.h"

namespace fovea::models {

class ConvEmbed final : public Layer {
 public:
  // What the two are called in the parameters' names.
  struct Names {
    std::string convolution = "proj";
    std::string norm = "norm";
  };
  ConvEmbed(const Conv2dOptions& convolution, double norm_epsilon);
  ConvEmbed(const Conv2dOptions& convolution, double norm_epsilon, const Names& names);

  // map [N, in, height, width] of any floating type and layout -> tokens [N, places, out], row by
  // row.
  at::Tensor forward(const at::Tensor& map) const;

  // What becomes of a map. Throws c10::ValueError in words where it is smaller than the kernel.
  static Grid Embedded(const Grid& grid, const Conv2dOptions& convolution);

 private:
  const std::shared_ptr<Conv2d> convolution_;
  const std::shared_ptr<LayerNorm> norm_;
};

}  // namespace fovea::models
