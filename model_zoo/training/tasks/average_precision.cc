#include "model_zoo/training/tasks/average_precision.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model_zoo/training/losses/box_losses.h"
#include "model_zoo/training/losses/matching.h"

namespace fovea::models::training {

at::Tensor TakenObjects(const at::Tensor& boxes, const at::Tensor& labels,
                        const ImageTruth& truth) {
  constexpr double kLeastIou = 0.5, kInCrowd = 0.5;
  const int64_t count = boxes.size(0);
  at::Tensor taken = at::full({count}, kBackground, at::kLong);
  if (truth.crowds.size(0) > 0 && count > 0) {
    taken.masked_fill_(CoveredShare(boxes, truth.crowds).amax(1) >= kInCrowd, kBetween);
  }
  if (truth.boxes.size(0) == 0) return taken;
  const at::Tensor same = labels.unsqueeze(1) == truth.labels.unsqueeze(0);
  const at::Tensor iou = PairwiseIou(boxes, truth.boxes).masked_fill_(same.logical_not(), 0);
  std::vector<bool> free(static_cast<size_t>(truth.boxes.size(0)), true);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t object = iou[i].argmax().item<int64_t>();
    if (iou[i][object].item<double>() < kLeastIou) continue;
    const auto place = static_cast<size_t>(object);
    taken[i] = free[place] ? object : kBackground;
    free[place] = false;
  }
  return taken;
}

void AveragePrecision::Add(const at::Tensor& boxes, const at::Tensor& scores,
                           const at::Tensor& labels, const ImageTruth& truth) {
  for (int64_t i = 0; i < truth.labels.size(0); ++i) {
    ++classes_[truth.labels[i].item<int64_t>()].objects;
  }
  const at::Tensor taken = TakenObjects(boxes, labels, truth);
  for (int64_t i = 0; i < boxes.size(0); ++i) {
    const int64_t object = taken[i].item<int64_t>();
    if (object == kBetween) continue;
    classes_[labels[i].item<int64_t>()].found.push_back({scores[i].item<float>(), object >= 0});
  }
}

double AveragePrecision::Of(const OfClass& one) {
  std::vector<Found> found = one.found;
  std::ranges::stable_sort(found, std::ranges::greater(), &Found::score);
  std::vector<double> precisions;  // at each right one
  int64_t right = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].right) continue;
    precisions.push_back(static_cast<double>(++right) / static_cast<double>(i + 1));
  }
  // The best precision that is reached with at least so many of the objects found.
  double area = 0, best = 0;
  for (size_t i = precisions.size(); i-- > 0;) {
    best = std::max(best, precisions[i]);
    area += best;
  }
  return area / static_cast<double>(one.objects);
}

double AveragePrecision::Mean() const {
  double sum = 0;
  int64_t there = 0;
  for (const auto& [label, one] : classes_) {
    if (one.objects == 0) continue;
    sum += Of(one);
    ++there;
  }
  return there == 0 ? 0 : sum / static_cast<double>(there);
}

}  // namespace fovea::models::training
