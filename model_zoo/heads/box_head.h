// What a two-stage detector says of a region: its class and its box.
//   Girshick, ICCV 2015, section 2. TORCHVISION: torchvision 0.26's FastRCNNConvFCHead and
//   FastRCNNPredictor, whose names these are: four convolutions with batch norms, one linear layer.
//   MMDETECTION: two linear layers, "fc6" and "fc7" as in torchvision's first version.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model_zoo/layers/conv_block.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// From a region's features to a vector.
class BoxHead final : public Layer {
 public:
  static constexpr int64_t kSide = 7;  // of a region's features
  // Of the vector: 1024 behind the published 256 channels.
  static constexpr int64_t Width(int64_t channels) { return 4 * channels; }

  BoxHead(int64_t channels, Conventions conventions);

  // [K, channels, kSide, kSide] -> [K, Width(channels)].
  at::Tensor forward(at::Tensor regions) const;

 private:
  std::vector<std::shared_ptr<ConvBlock>> convolutions_;
  std::vector<std::shared_ptr<Linear>> linear_;
};

// From the vector to the numbers.
class BoxPredictor final : public Layer {
 public:
  // `scores`: classes, the background among them. `boxes`: 1, or one for each class.
  BoxPredictor(int64_t width, int64_t scores, int64_t boxes);

  at::Tensor Logits(const at::Tensor& vectors) const;  // [K, width] -> [K, scores]
  at::Tensor Deltas(const at::Tensor& vectors) const;  // -> [K, 4 * boxes], as DecodeBoxes takes

 private:
  const std::shared_ptr<Linear> scores_;
  const std::shared_ptr<Linear> boxes_;
};

}  // namespace fovea::models
