// The second stage of a detector: what is said of regions, once or, in a cascade, several times.
//   torchvision 0.26's roi_heads, whose names these are. Where there are several stages, each has
//   its number behind the part's name ("box_head.0.fc6").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "model_zoo/heads/box_head.h"
#include "model_zoo/heads/mask_head.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

class RoiHeads final : public Layer {
 public:
  struct Shape {
    size_t stages = 1;
    int64_t channels = 0;  // of the pyramid
    int64_t scores = 0;    // classes, the background among them
    int64_t boxes = 0;     // 1, or one for each class
    int64_t masks = 0;     // of a region: one for each class
  };
  RoiHeads(const Shape& shape, Conventions conventions);

  size_t stages() const { return box_heads_.size(); }

  struct Boxes {
    at::Tensor logits;  // [K, scores]
    at::Tensor deltas;  // [K, 4 * boxes]
  };
  // regions: [K, channels, BoxHead::kSide, BoxHead::kSide], RegionFeatures of boxes.
  Boxes PredictBoxes(size_t stage, const at::Tensor& regions) const;

  // regions: [K, channels, MaskHead::kSide, MaskHead::kSide]. labels: INT64 [K], which of its masks
  // is asked for of each. Returns logits [K, MaskPredictor::kSide, MaskPredictor::kSide].
  at::Tensor PredictMasks(size_t stage, const at::Tensor& regions, const at::Tensor& labels) const;

 private:
  // Of each stage.
  std::vector<std::shared_ptr<BoxHead>> box_heads_;
  std::vector<std::shared_ptr<BoxPredictor>> box_predictors_;
  std::vector<std::shared_ptr<MaskHead>> mask_heads_;
  std::vector<std::shared_ptr<MaskPredictor>> mask_predictors_;
};

}  // namespace fovea::models
