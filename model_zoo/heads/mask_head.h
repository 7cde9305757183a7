// What a two-stage detector says of a region and a class: which of its places show the object.
//   He et al., ICCV 2017, section 3 and figure 4. torchvision 0.26's MaskRCNNHeads and
//   MaskRCNNPredictor, whose names these are; batch norms under TORCHVISION only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model_zoo/layers/conv_block.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// Four convolutions.
class MaskHead final : public Layer {
 public:
  static constexpr int64_t kSide = 14;  // of a region's features

  MaskHead(int64_t channels, Conventions conventions);

  // [K, channels, kSide, kSide] -> the same shape.
  at::Tensor forward(at::Tensor regions) const;

 private:
  std::vector<std::shared_ptr<ConvBlock>> convolutions_;
};

// A 2x2 convolution that doubles the size (parameters as torch's ConvTranspose2d), and a 1x1 one to
// the classes, of which each region asks for one: the others' logits are never made, so that memory
// does not grow with the classes.
class MaskPredictor final : public Layer {
 public:
  static constexpr int64_t kSide = 2 * MaskHead::kSide;  // of a mask

  MaskPredictor(int64_t channels, int64_t classes);

  // regions: [K, channels, MaskHead::kSide, MaskHead::kSide]. labels: INT64 [K], the class that is
  // asked for of each. Returns logits [K, kSide, kSide].
  at::Tensor forward(const at::Tensor& regions, const at::Tensor& labels) const;

 private:
  class Upsample;
  class Logits;

  const std::shared_ptr<Upsample> upsample_;
  const std::shared_ptr<Logits> logits_;
};

}  // namespace fovea::models
