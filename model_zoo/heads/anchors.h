// Anchors: the boxes of fixed shapes, around every place of a map, that a detector starts from.
//   Ren et al., NIPS 2015, section 3.1. Boxes are x1, y1, x2, y2 in pixels of the model's input.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea::models {

// From one place of a map [N, C, h, w] to the next, down and to the right, in pixels of `input`.
//   TORCHVISION: the input's size by the map's, rounded down; MMDETECTION: the stride.
std::array<int64_t, 2> AnchorStep(const ImageSize& input, const at::Tensor& map, int64_t stride,
                                  Conventions conventions);

// The anchors around (0, 0): sizes and ratios (height / width) in all pairs, sizes inside. FP32
// [shapes, 4]. A head keeps them where its maps are.
//   TORCHVISION rounds them to whole pixels, MMDETECTION does not.
at::Tensor AnchorShapes(const std::vector<double>& sizes, const std::vector<double>& ratios,
                        Conventions conventions);

// Of one map.
class Anchors {
 public:
  // AnchorShapes around the upper left corner of a place. `step`: AnchorStep's.
  Anchors(at::Tensor shapes, std::array<int64_t, 2> step, int64_t map_width);

  int64_t at_each_place() const { return shapes_.size(0); }

  // index: INT64 [M], of anchors in the order of places (row by row), then shapes; on the shapes'
  // device. Returns FP32 [M, 4]. Anchors reach over the edges of the input.
  at::Tensor Boxes(const at::Tensor& index) const;

 private:
  at::Tensor shapes_;
  std::array<int64_t, 2> step_;
  int64_t map_width_;
};

// Boxes from what a head says of how they differ from `references`: FP32 [M, 4] both. `deltas`:
// moves of the centre by widths and heights, and logarithms of factors (Girshick et al. 2014,
// appendix C), each divided by its weight. Factors are at most 1000 / 16; MMDETECTION's at least
// 16 / 1000 too.
at::Tensor DecodeBoxes(const at::Tensor& deltas, const at::Tensor& references,
                       const std::array<double, 4>& weights, Conventions conventions);

}  // namespace fovea::models
