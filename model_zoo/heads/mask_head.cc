#include "model_zoo/heads/mask_head.h"

#include <ATen/ATen.h>

#include <string>

#include "model_zoo/layers/conv2d.h"

namespace fovea::models {
namespace {

constexpr int kConvolutions = 4;

}  // namespace

MaskHead::MaskHead(int64_t channels, Conventions conventions) {
  for (int i = 0; i < kConvolutions; ++i) {
    convolutions_.push_back(Add<ConvBlock>(
        std::to_string(i), Conv2dOptions::Square(channels, channels, 3, 1, 1).UpTo(kSide, kSide),
        conventions == Conventions::kTorchvision));
  }
}

at::Tensor MaskHead::forward(at::Tensor regions) const {
  for (const auto& convolution : convolutions_) regions = convolution->forward(regions).relu();
  return regions;
}

class MaskPredictor::Upsample final : public Layer {
 public:
  explicit Upsample(int64_t channels)
      : weight_(AddParameter("weight", {channels, channels, 2, 2})),
        bias_(AddParameter("bias", {channels})) {}

  at::Tensor forward(const at::Tensor& map) const {
    return at::conv_transpose2d(map, weight_, bias_, /*stride=*/{2, 2});
  }

 private:
  const at::Tensor weight_;
  const at::Tensor bias_;
};

class MaskPredictor::Logits final : public Layer {
 public:
  Logits(int64_t channels, int64_t classes)
      : weight_(AddParameter("weight", {classes, channels, 1, 1})),
        bias_(AddParameter("bias", {classes})) {}

  // The 1x1 convolution's outputs for one class each: the product of its row with the region.
  at::Tensor forward(const at::Tensor& regions, const at::Tensor& labels) const {
    const at::Tensor rows = weight_.index_select(0, labels).flatten(1).unsqueeze(1);
    const at::Tensor biases = bias_.index_select(0, labels).view({-1, 1, 1});
    return at::baddbmm(biases, rows, regions.flatten(2))
        .view({regions.size(0), regions.size(2), regions.size(3)});
  }

 private:
  const at::Tensor weight_;
  const at::Tensor bias_;
};

MaskPredictor::MaskPredictor(int64_t channels, int64_t classes)
    : upsample_(Add<Upsample>("conv5_mask", channels)),
      logits_(Add<Logits>("mask_fcn_logits", channels, classes)) {}

at::Tensor MaskPredictor::forward(const at::Tensor& regions, const at::Tensor& labels) const {
  return logits_->forward(upsample_->forward(regions).relu(), labels);
}

}  // namespace fovea::models
