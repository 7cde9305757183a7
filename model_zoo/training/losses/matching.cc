#include "model_zoo/training/losses/matching.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "model_zoo/training/losses/box_losses.h"

namespace fovea::models::training {
namespace {

// `count` of `index`, drawn without putting back.
at::Tensor Draw(const at::Tensor& index, int64_t count, Random& random) {
  at::Tensor shuffled = index.contiguous().clone();
  auto* values = shuffled.mutable_data_ptr<int64_t>();
  const int64_t all = shuffled.size(0);
  for (int64_t i = 0; i < std::min(count, all); ++i) {
    std::swap(values[i], values[i + random.Below(static_cast<int>(all - i))]);
  }
  return shuffled.slice(0, 0, count);
}

}  // namespace

at::Tensor Match(const at::Tensor& iou, const MatchOptions& options) {
  if (iou.size(0) == 0) return at::full({iou.size(1)}, kBackground, at::kLong);
  const auto [best, object] = iou.max(0);
  at::Tensor matched = object.masked_fill(best < options.background_iou, kBackground);
  matched.masked_fill_((best >= options.background_iou) & (best < options.foreground_iou),
                       kBetween);
  if (options.best_of_each_object) {
    const at::Tensor largest = iou.amax(1, /*keepdim=*/true);
    const at::Tensor nearest = (iou == largest) & (iou > 0);
    matched = at::where(nearest.any(0), object, matched);
  }
  return matched;
}

at::Tensor MatchObjects(const at::Tensor& boxes, const ImageTruth& image,
                        const MatchOptions& options) {
  constexpr double kInCrowd = 0.5;
  at::Tensor matched = Match(PairwiseIou(image.boxes, boxes), options);
  if (image.crowds.size(0) > 0) {
    const at::Tensor inside = CoveredShare(boxes, image.crowds).amax(1) >= kInCrowd;
    matched.masked_fill_((matched == kBackground) & inside, kBetween);
  }
  return matched;
}

MatchSample SampleMatches(const at::Tensor& matched, const MatchSamplingOptions& options,
                          Random& random) {
  const auto most =
      static_cast<int64_t>(static_cast<double>(options.count) * options.foreground_share);
  MatchSample sample;
  sample.foreground = Draw((matched >= 0).nonzero().squeeze(1), most, random);
  sample.background = Draw((matched == kBackground).nonzero().squeeze(1),
                           options.count - sample.foreground.size(0), random);
  return sample;
}

}  // namespace fovea::models::training
