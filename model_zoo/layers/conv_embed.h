// Overlapping patches: a strided convolution whose kernel exceeds its stride, and a layer norm.
//   CvT (Wu et al., ICCV 2021), section 3.2; CSWin and Pale transformers have it for their stem and
//   between their stages.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/grid.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/layer_norm.h"

namespace fovea::models {

// Children `conv` and `norm`.
class ConvEmbed final : public Layer {
 public:
  ConvEmbed(const Conv2dOptions& convolution, double norm_epsilon);

  // map [N, in, height, width], of any type -> tokens [N, Embedded().tokens(), out], row by row.
  at::Tensor forward(const at::Tensor& map) const;

  // The grid of the tokens for a map of height x width.
  Grid Embedded(int64_t height, int64_t width) const;

 private:
  const Conv2dOptions convolution_;
  const std::shared_ptr<Conv2d> conv_;
  const std::shared_ptr<LayerNorm> norm_;
};

}  // namespace fovea::models
