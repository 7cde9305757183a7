#include "model_zoo/heads/box_head.h"

#include <ATen/ATen.h>

#include <string>

#include "model_zoo/layers/conv2d.h"

namespace fovea::models {
namespace {

constexpr int kConvolutions = 4;

}  // namespace

BoxHead::BoxHead(int64_t channels, Conventions conventions) {
  const int64_t flat = channels * kSide * kSide, width = Width(channels);
  if (conventions == Conventions::kTorchvision) {
    for (int i = 0; i < kConvolutions; ++i) {
      convolutions_.push_back(Add<ConvBlock>(
          std::to_string(i), Conv2dOptions::Square(channels, channels, 3, 1, 1).UpTo(kSide, kSide),
          /*normed=*/true));
    }
    // Behind a flattening that has the number 4.
    linear_ = {Add<Linear>(std::to_string(kConvolutions + 1), flat, width)};
  } else {
    linear_ = {Add<Linear>("fc6", flat, width), Add<Linear>("fc7", width, width)};
  }
}

at::Tensor BoxHead::forward(at::Tensor regions) const {
  for (const auto& convolution : convolutions_) regions = convolution->forward(regions).relu();
  at::Tensor flat = regions.flatten(1);
  for (const auto& layer : linear_) flat = layer->forward(flat).relu();
  return flat;
}

BoxPredictor::BoxPredictor(int64_t width, int64_t scores, int64_t boxes)
    : scores_(Add<Linear>("cls_score", width, scores)),
      boxes_(Add<Linear>("bbox_pred", width, 4 * boxes)) {}

at::Tensor BoxPredictor::Logits(const at::Tensor& vectors) const {
  return scores_->forward(vectors);
}

at::Tensor BoxPredictor::Deltas(const at::Tensor& vectors) const {
  return boxes_->forward(vectors);
}

}  // namespace fovea::models
