// What box regression is trained with. Boxes are x1, y1, x2, y2 in pixels of the model's input,
// FP32 [M, 4].
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace fovea::models::training {

// Intersection over union of each of `boxes` [M, 4] with each of `others` [K, 4]: [M, K]. 0 where
// neither has an area.
at::Tensor PairwiseIou(const at::Tensor& boxes, const at::Tensor& others);

// The share of each of `boxes` [M, 4] that lies in each of `others` [K, 4]: [M, K]. 0 for a box
// without an area.
at::Tensor CoveredShare(const at::Tensor& boxes, const at::Tensor& others);

// The deltas from which DecodeBoxes (model_zoo/heads/anchors.h) makes `boxes` of `references`, row
// by row. Girshick et al. 2014, appendix C; each times its weight. All sides are above 0.
at::Tensor EncodeBoxes(const at::Tensor& boxes, const at::Tensor& references,
                       const std::array<double, 4>& weights);

// 1 - GIoU, row by row: [M]. Rezatofighi et al., CVPR 2019, algorithm 1. Divisors have 1e-7 added,
// as torchvision's, so that boxes without an area have a gradient.
at::Tensor GeneralizedIouLoss(const at::Tensor& boxes, const at::Tensor& targets);

// The sum of the smooth L1 loss of all numbers: quadratic below `beta`. Girshick, ICCV 2015,
// equation 3, is that with 1; detectors with proposals take 1 / 9.
at::Tensor SmoothL1Sum(const at::Tensor& deltas, const at::Tensor& targets, double beta);

}  // namespace fovea::models::training
