#include "model_zoo/training/losses/box_losses.h"

#include <ATen/ATen.h>

namespace fovea::models::training {
namespace {

at::Tensor Areas(const at::Tensor& boxes) {
  return (boxes.select(-1, 2) - boxes.select(-1, 0)) * (boxes.select(-1, 3) - boxes.select(-1, 1));
}

// Of pairs that broadcast against each other: [..., 4] -> [...].
at::Tensor Intersections(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor low = a.slice(-1, 0, 2).maximum(b.slice(-1, 0, 2));
  const at::Tensor high = a.slice(-1, 2, 4).minimum(b.slice(-1, 2, 4));
  const at::Tensor sides = (high - low).clamp_min(0);
  return sides.select(-1, 0) * sides.select(-1, 1);
}

}  // namespace

at::Tensor PairwiseIou(const at::Tensor& boxes, const at::Tensor& others) {
  const at::Tensor shared = Intersections(boxes.unsqueeze(1), others.unsqueeze(0));
  const at::Tensor all = Areas(boxes).unsqueeze(1) + Areas(others).unsqueeze(0) - shared;
  return (shared / all).nan_to_num_(/*nan=*/0);
}

at::Tensor CoveredShare(const at::Tensor& boxes, const at::Tensor& others) {
  const at::Tensor shared = Intersections(boxes.unsqueeze(1), others.unsqueeze(0));
  return (shared / Areas(boxes).unsqueeze(1)).nan_to_num_(/*nan=*/0);
}

at::Tensor EncodeBoxes(const at::Tensor& boxes, const at::Tensor& references,
                       const std::array<double, 4>& weights) {
  const at::Tensor from = references.slice(1, 2, 4) - references.slice(1, 0, 2);
  const at::Tensor to = boxes.slice(1, 2, 4) - boxes.slice(1, 0, 2);
  const at::Tensor from_centre = references.slice(1, 0, 2) + 0.5 * from;
  const at::Tensor to_centre = boxes.slice(1, 0, 2) + 0.5 * to;
  const at::Tensor deltas = at::cat({(to_centre - from_centre) / from, (to / from).log()}, 1);
  return deltas * at::tensor(weights, deltas.options());
}

at::Tensor GeneralizedIouLoss(const at::Tensor& boxes, const at::Tensor& targets) {
  constexpr double kEpsilon = 1e-7;
  const at::Tensor shared = Intersections(boxes, targets);
  const at::Tensor all = Areas(boxes) + Areas(targets) - shared;
  const at::Tensor low = boxes.slice(1, 0, 2).minimum(targets.slice(1, 0, 2));
  const at::Tensor high = boxes.slice(1, 2, 4).maximum(targets.slice(1, 2, 4));
  const at::Tensor hull = (high - low).prod(1);
  return 1 - (shared / (all + kEpsilon) - (hull - all) / (hull + kEpsilon));
}

at::Tensor SmoothL1Sum(const at::Tensor& deltas, const at::Tensor& targets, double beta) {
  return at::smooth_l1_loss(deltas, targets, at::Reduction::Sum, beta);
}

}  // namespace fovea::models::training
