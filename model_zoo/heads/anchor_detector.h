// What training needs of a detector in one stage, or of the proposals of one in two: the logits and
// deltas of all anchors, before any is selected. Serving never asks for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model_zoo/heads/anchors.h"
#include "model_zoo/model_description.h"

namespace fovea::models {

// Of all anchors: finest map first, of a map by place, row by row, then by shape.
struct AnchorOutputs {
  at::Tensor logits;                             // [N, anchors, classes], before the sigmoid
  at::Tensor deltas;                             // [N, anchors, 4], as DecodeBoxes takes them
  at::Tensor anchors;                            // FP32 [anchors, 4]
  std::array<double, 4> weights = {1, 1, 1, 1};  // of the deltas
  Conventions conventions = Conventions::kTorchvision;
};

class AnchorDetector {
 public:
  virtual ~AnchorDetector() = default;

  // maps: as Head::forward's.
  virtual AnchorOutputs Outputs(const std::vector<at::Tensor>& maps) const = 0;
};

}  // namespace fovea::models
