// ResNet: a pyramid of convolutions without attention, the peer that vision transformers are
// compared with, and the backbone of torchvision's detectors.
//   He et al., CVPR 2016, with the stride in the 3x3 convolution of a bottleneck ("v1.5").
//   Code followed: torchvision 0.26 (resnet.py), whose names these are, and timm's too.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/layers/batch_norm.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/normed_conv2d.h"

namespace fovea::models {
namespace {

constexpr int64_t kStages = 4;
constexpr int64_t kExpansion = 4;     // a bottleneck's output, of its inner channels
constexpr int64_t kFirstStride = 4;   // of the first stage's map
constexpr double kResizedSide = 232;  // the shorter side before the crop

struct ResNetConfig {
  int64_t channels = 0;  // inner ones of the first stage, doubled by each next one
  std::array<int64_t, kStages> depths;
};

ResNetConfig Shrunk(ResNetConfig config) {
  config.channels = 4;
  config.depths = {1, 1, 2, 1};
  return config;
}

// 1x1, 3x3 and 1x1 convolutions around a shortcut.
class Bottleneck final : public Layer {
 public:
  // `largest`: the most that a map that comes out is high and wide.
  Bottleneck(int64_t in, int64_t inner, int64_t stride, const ImageSize& largest)
      : conv1_(Add<Conv2d>("conv1", Conv2dOptions::Square(in, inner, 1).NoBias())),
        norm1_(Add<BatchNorm2d>("bn1", inner)),
        conv2_(Add<Conv2d>("conv2", Conv2dOptions::Square(inner, inner, 3, stride, 1)
                                        .NoBias()
                                        .UpTo(stride * largest.height, stride * largest.width))),
        norm2_(Add<BatchNorm2d>("bn2", inner)),
        conv3_(Add<Conv2d>("conv3", Conv2dOptions::Square(inner, kExpansion * inner, 1).NoBias())),
        norm3_(Add<BatchNorm2d>("bn3", kExpansion * inner)) {
    if (stride != 1 || in != kExpansion * inner) {
      shortcut_ =
          Add<NormedConv2d>("downsample", "0", "1",
                            Conv2dOptions::Square(in, kExpansion * inner, 1, stride).NoBias());
    }
  }

  // [N, in, height, width] -> [N, 4 * inner, height / stride, width / stride], rounded up.
  at::Tensor forward(const at::Tensor& map) const {
    at::Tensor out = norm1_->forward(conv1_->forward(map)).relu_();
    out = norm2_->forward(conv2_->forward(out)).relu_();
    out = norm3_->forward(conv3_->forward(out));
    return out.add_(shortcut_ ? shortcut_->forward(map) : map).relu_();
  }

  void Prepare(const Placement& placement) override {
    norm1_->FoldInto(*conv1_);
    norm2_->FoldInto(*conv2_);
    norm3_->FoldInto(*conv3_);
    Layer::Prepare(placement);
  }

 private:
  const std::shared_ptr<Conv2d> conv1_;
  const std::shared_ptr<BatchNorm2d> norm1_;
  const std::shared_ptr<Conv2d> conv2_;
  const std::shared_ptr<BatchNorm2d> norm2_;
  const std::shared_ptr<Conv2d> conv3_;
  const std::shared_ptr<BatchNorm2d> norm3_;
  std::shared_ptr<NormedConv2d> shortcut_;  // null: the identity
};

class ResNet final : public Backbone {
 public:
  ResNet(const ResNetConfig& config, const ModelDescription& description)
      : info_(Describe(config, description)),
        conv1_(Add<Conv2d>("conv1", Conv2dOptions::Square(3, config.channels, 7, 2, 3).NoBias())),
        norm1_(Add<BatchNorm2d>("bn1", config.channels)) {
    ImageSize image = {info_.image_height, info_.image_width};
    for (const auto& [height, width] : description.further_sizes) {
      image = {std::max(image.height, height), std::max(image.width, width)};
    }
    int64_t in = config.channels;
    for (int64_t i = 0; i < kStages; ++i) {
      const int64_t inner = config.channels << i, step = kFirstStride << i;
      const ImageSize largest = {(image.height + step - 1) / step, (image.width + step - 1) / step};
      auto stage = Add<LayerList<Bottleneck>>("layer" + std::to_string(i + 1));
      for (int64_t block = 0; block < config.depths[i]; ++block) {
        stage->Emplace(in, inner, /*stride=*/i > 0 && block == 0 ? 2 : 1, largest);
        in = kExpansion * inner;
      }
      stages_.push_back(std::move(stage));
    }
    if (info_.num_classes > 0) {
      head_ = Add<Linear>("fc", in, info_.num_classes);
      head_->KeepPrecision();
    }
  }

  std::vector<at::Tensor> forward(const at::Tensor& pixels,
                                  ForwardContext& context) const override {
    const at::Tensor map = RunStages(pixels, context, nullptr);
    if (!map.defined()) return {};
    context.EnterStage("head");
    const at::Tensor pooled = map.mean({2, 3});
    return {head_ ? head_->forward(pooled) : pooled};
  }

  std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                   ForwardContext& context) const override {
    std::vector<at::Tensor> maps;
    if (!RunStages(pixels, context, &maps).defined()) return {};
    return maps;
  }

  const ModelInfo& info() const override { return info_; }

  WeightNames weight_names() const override {
    return {.ignored_suffixes = {"num_batches_tracked"}};
  }

  void Prepare(const Placement& placement) override {
    norm1_->FoldInto(*conv1_);
    Layer::Prepare(placement);
  }

 private:
  static ModelInfo Describe(const ResNetConfig& config, const ModelDescription& description) {
    TORCH_CHECK_VALUE(description.attention.empty(), description.backbone, " has no attention");
    // As the second training recipe of torchvision, its default, is evaluated.
    const PublishedInput published{
        .preprocessing = {.interpolation = Interpolation::kBilinear,
                          .crop_fraction = PublishedInput{}.side / kResizedSide}};
    ModelInfo info =
        DescribeClassifier(description, published, kExpansion * config.channels << (kStages - 1));
    for (int64_t i = 0; i < kStages; ++i) {
      info.features.push_back({kExpansion * config.channels << i, kFirstStride << i});
    }
    return info;
  }

  // The last stage's map, and each stage's where `maps` is given; undefined when the context
  // stopped the pass.
  at::Tensor RunStages(const at::Tensor& pixels, ForwardContext& context,
                       std::vector<at::Tensor>* maps) const {
    context.EnterStage("stem");
    at::Tensor map = norm1_->forward(conv1_->forward(pixels.to(activations()))).relu_();
    map = at::max_pool2d(map, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
    for (size_t i = 0; i < stages_.size(); ++i) {
      const std::string name = "layer" + std::to_string(i + 1);
      context.EnterStage("stage" + std::to_string(i + 1));
      for (size_t block = 0; block < stages_[i]->size(); ++block) {
        if (context.ShouldStop()) return {};
        map = (*stages_[i])[block].forward(map);
        if (context.Recording()) context.Record(name + "." + std::to_string(block), "output", map);
      }
      if (maps != nullptr) maps->push_back(map);
    }
    return map;
  }

  const ModelInfo info_;
  const std::shared_ptr<Conv2d> conv1_;
  const std::shared_ptr<BatchNorm2d> norm1_;
  std::vector<std::shared_ptr<LayerList<Bottleneck>>> stages_;
  std::shared_ptr<Linear> head_;  // null where the model gives features
};

}  // namespace

void RegisterResNet(BackboneRegistry& registry) {
  const ResNetConfig resnet50{.channels = 64, .depths = {3, 4, 6, 3}};
  registry.Add(Variant<ResNet>(
      "resnet50", "ResNet-50: convolutions only, to compare with; 25.6 M parameters", resnet50));
}

}  // namespace fovea::models
