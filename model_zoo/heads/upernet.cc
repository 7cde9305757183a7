// UPerNet: the coarsest map pooled at four scales, a feature pyramid below it, all of its maps
// fused at the finest one.
//   Xiao et al., ECCV 2018; used by KVT (Wang et al., ECCV 2022). Code followed: transformers 5
//   (UperNetHead), whose names these are below "decode_head."; `norms` are the layer norms of its
//   backbones ("backbone.hidden_states_norms.stage1" and so on), which vision transformers take on
//   each map and convolutional networks do not. The auxiliary head is for training only.
#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model_zoo/heads/register.h"
#include "model_zoo/heads/segmentation.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/normed_conv2d.h"

namespace fovea::models {
namespace {

constexpr char kName[] = "upernet";
constexpr int64_t kPublishedChannels = 512;
constexpr double kNormEpsilon = 1e-5;
constexpr std::array<int64_t, 4> kPoolScales = {1, 2, 3, 6};

at::Tensor Interpolated(const at::Tensor& map, const at::Tensor& like) {
  return at::upsample_bilinear2d(map, {like.size(2), like.size(3)}, /*align_corners=*/false);
}

// That keep the size; a ReLU follows each.
Conv2dOptions Convolution(int64_t in, int64_t out, int64_t side) {
  return Conv2dOptions::Square(in, out, side, 1, side / 2).NoBias();
}

class UperNet final : public Head {
 public:
  explicit UperNet(const HeadSite& site)
      : num_classes_(SegmentationClasses(site, kName)),
        pooled_(Add<LayerList<Pooled>>("psp_modules")),
        laterals_(Add<LayerList<NormedConv2d>>("lateral_convs")),
        outputs_(Add<LayerList<NormedConv2d>>("fpn_convs")) {
    const std::vector<int64_t> channels = ChannelsOf(site.backbone.features);
    const int64_t width = WidthOf(site, kPublishedChannels);
    if (!site.backbone.attention.empty()) {
      norms_ = Add<LayerList<LayerNorm>>("norms");
      for (const int64_t each : channels) norms_->Emplace(each, kNormEpsilon);
    }
    for (const int64_t scale : kPoolScales) pooled_->Emplace(channels.back(), width, scale);
    const int64_t scales = std::ssize(kPoolScales);
    bottleneck_ = Normed("bottleneck", channels.back() + scales * width, width);
    for (size_t i = 0; i + 1 < channels.size(); ++i) {
      laterals_->Emplace(kConv, kNorm, Convolution(channels[i], width, 1));
      outputs_->Emplace(kConv, kNorm, Convolution(width, width, 3));
    }
    fuse_ = Normed("fpn_bottleneck", std::ssize(channels) * width, width);
    classifier_ = Add<Conv2d>("classifier", Conv2dOptions::Square(width, num_classes_, 1));
  }

  std::vector<ModelInfo::Output> outputs() const override {
    return SegmentationOutputs(num_classes_);
  }
  int64_t num_classes() const override { return num_classes_; }

  // mmsegmentation.
  std::optional<ParameterInit> InitOf(const std::string& parameter,
                                      at::IntArrayRef /*shape*/) const override {
    if (parameter == "classifier.weight") return ParameterInit{ParameterInit::Kind::kNormal, 0.01};
    return std::nullopt;
  }

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps,
                                  ForwardContext& context) const override {
    std::vector<at::Tensor> pyramid;
    for (size_t i = 0; i <= laterals_->size(); ++i) pyramid.push_back(Normalised(i, maps[i]));
    context.Record("head", "coarsest", pyramid.back());
    for (size_t i = 0; i < laterals_->size(); ++i) {
      pyramid[i] = (*laterals_)[i].forward(pyramid[i]).relu();
    }
    pyramid.back() = Pool(pyramid.back());
    context.Record("head", "pooled", pyramid.back());
    if (context.ShouldStop()) return {};
    for (size_t i = pyramid.size() - 1; i > 0; --i) {
      pyramid[i - 1] = pyramid[i - 1] + Interpolated(pyramid[i], pyramid[i - 1]);
    }
    for (size_t i = 0; i < outputs_->size(); ++i) {
      pyramid[i] = (*outputs_)[i].forward(pyramid[i]).relu();
    }
    if (context.ShouldStop()) return {};
    for (size_t i = 1; i < pyramid.size(); ++i) pyramid[i] = Interpolated(pyramid[i], pyramid[0]);
    const at::Tensor fused = fuse_->forward(at::cat(pyramid, 1)).relu();
    context.Record("head", "fused", fused);
    return {classifier_->forward(fused)};
  }

 private:
  static constexpr char kConv[] = "conv", kNorm[] = "batch_norm";

  // The map's mean in each cell of a grid of `scale` x `scale`.
  class Pooled final : public Layer {
   public:
    Pooled(int64_t in, int64_t out, int64_t scale)
        : scale_(scale), conv_(Add<NormedConv2d>("1", kConv, kNorm, Convolution(in, out, 1))) {}

    at::Tensor forward(const at::Tensor& map) const {
      return conv_->forward(at::adaptive_avg_pool2d(map, {scale_, scale_})).relu();
    }

   private:
    const int64_t scale_;
    const std::shared_ptr<NormedConv2d> conv_;
  };

  std::shared_ptr<NormedConv2d> Normed(const std::string& name, int64_t in, int64_t out) {
    return Add<NormedConv2d>(name, kConv, kNorm, Convolution(in, out, 3));
  }

  at::Tensor Normalised(size_t i, const at::Tensor& map) const {
    if (!norms_) return map;
    return (*norms_)[i].forward(map.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }

  at::Tensor Pool(const at::Tensor& coarsest) const {
    std::vector<at::Tensor> all = {coarsest};
    for (const auto& scale : pooled_->list()) {
      all.push_back(Interpolated(scale->forward(coarsest), coarsest));
    }
    return bottleneck_->forward(at::cat(all, 1)).relu();
  }

  const int64_t num_classes_;
  std::shared_ptr<LayerList<LayerNorm>> norms_;  // null: the maps are taken as they are
  const std::shared_ptr<LayerList<Pooled>> pooled_;
  std::shared_ptr<NormedConv2d> bottleneck_;
  const std::shared_ptr<LayerList<NormedConv2d>> laterals_;  // of all maps but the coarsest
  const std::shared_ptr<LayerList<NormedConv2d>> outputs_;
  std::shared_ptr<NormedConv2d> fuse_;
  std::shared_ptr<Conv2d> classifier_;
};

}  // namespace

HeadEntry UperNetEntry() {
  return {"upernet", "a class at every place, of all maps fused at the finest", Task::kSegmentation,
          [](const HeadSite& site) { return std::make_shared<UperNet>(site); }};
}

}  // namespace fovea::models
