// RetinaNet: a class and a box at every place of a feature pyramid, in one stage.
//   Lin et al., ICCV 2017. TORCHVISION: retinanet_resnet50_fpn_v2 of torchvision 0.26
//   (retinanet.py), whose names these are: group norms behind the convolutions of both branches,
//   steps between anchors as an input's height and width divide by a map's, rounded down.
//   MMDETECTION: retinanet_r50_fpn of mmdetection 3: no norms, no ReLU between P6 and P7, steps
//   that double from map to map.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model_zoo/heads/anchor_detector.h"
#include "model_zoo/heads/anchors.h"
#include "model_zoo/heads/detections.h"
#include "model_zoo/heads/register.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/group_norm.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/necks/fpn.h"

namespace fovea::models {
namespace {

constexpr int64_t kPublishedChannels = 256;
constexpr size_t kMaps = 3;            // of the backbone: its coarsest ones
constexpr size_t kLevels = kMaps + 2;  // of the pyramid
// At 800x1344, as published, its maps have 22,400 places with nine anchors, each with a logit of
// every class: 4 GB an image, FP32.
constexpr int64_t kMostClasses = 5'000;
constexpr int64_t kBranchDepth = 4;
constexpr int64_t kNormGroups = 32;
constexpr int64_t kCandidates = 1000;   // of one map at most
constexpr double kPrior = 0.01;         // of an object, before training
constexpr int64_t kSizesPerOctave = 3;  // of anchors, the smallest four steps wide
constexpr std::array<double, 3> kRatios = {0.5, 1, 2};
constexpr int64_t kAnchors = kSizesPerOctave * std::ssize(kRatios);  // at each place

// A convolution, a norm where there is one, a ReLU.
class BranchLayer final : public Layer {
 public:
  BranchLayer(int64_t channels, bool normed) {
    const Conv2dOptions options = Conv2dOptions::Square(channels, channels, 3, 1, 1);
    conv_ = Add<Conv2d>("0", normed ? options.NoBias() : options);
    if (normed) norm_ = Add<GroupNorm>("1", kNormGroups, channels);
  }

  at::Tensor forward(const at::Tensor& map) const {
    const at::Tensor out = conv_->forward(map);
    return norm_ ? norm_->forward(out).relu_() : at::relu(out);
  }

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<GroupNorm> norm_;  // null: none
};

// One of the two: what it says of each anchor. The same for every map.
class Branch final : public Layer {
 public:
  Branch(int64_t channels, bool normed, const std::string& last, int64_t numbers)
      : layers_(Add<LayerList<BranchLayer>>("conv")),
        last_(Add<Conv2d>(last, Conv2dOptions::Square(channels, kAnchors * numbers, 3, 1, 1))) {
    for (int64_t i = 0; i < kBranchDepth; ++i) layers_->Emplace(channels, normed);
  }

  // map [N, channels, height, width] -> [N, height * width * kAnchors * numbers]: by place, row by
  // row, then anchor, then number.
  at::Tensor forward(at::Tensor map) const {
    for (const auto& layer : layers_->list()) map = layer->forward(map);
    return last_->forward(map).permute({0, 2, 3, 1}).flatten(1);
  }

 private:
  const std::shared_ptr<LayerList<BranchLayer>> layers_;
  const std::shared_ptr<Conv2d> last_;
};

class RetinaNet final : public Head, public AnchorDetector {
 public:
  explicit RetinaNet(const HeadSite& site)
      : options_(Published(site.detection)),
        num_classes_(Classes(site)),
        input_{site.backbone.image_height, site.backbone.image_width},
        first_stride_(MapsOf(site.backbone).front().stride),
        fpn_(Add<Fpn>(
            "fpn", ChannelsOf(MapsOf(site.backbone)), Width(site),
            normed() ? Fpn::Extra::kTwoConvolutions : Fpn::Extra::kTwoConvolutionsWithoutRelu)),
        classes_(
            Add<Branch>("classification_head", Width(site), normed(), "cls_logits", num_classes_)),
        boxes_(Add<Branch>("regression_head", Width(site), normed(), "bbox_reg", 4)) {
    for (size_t level = 0; level < kLevels; ++level) anchor_shapes_.push_back(ShapesOf(level));
  }

  void Prepare(const Placement& placement) override {
    for (at::Tensor& shapes : anchor_shapes_) shapes = shapes.to(placement.device);
    Layer::Prepare(placement);
  }

  std::vector<ModelInfo::Output> outputs() const override {
    return DetectionOutputs(options_.detections_per_image);
  }
  int64_t num_classes() const override { return num_classes_; }

  // Lin et al., section 4.1: every anchor is one of background with a probability of 0.99.
  std::optional<ParameterInit> InitOf(const std::string& parameter,
                                      at::IntArrayRef shape) const override {
    if (parameter == "classification_head.cls_logits.bias") {
      return ParameterInit{ParameterInit::Kind::kConstant, -std::log((1 - kPrior) / kPrior)};
    }
    if (shape.size() != 4) return std::nullopt;
    if (parameter.starts_with("fpn.")) {
      return ParameterInit{ParameterInit::Kind::kUniform, Fpn::InitBound(shape)};
    }
    return ParameterInit{ParameterInit::Kind::kNormal, 0.01};
  }

  // The candidates of each image: [N, M, 4], [N, M], [N, M].
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps,
                                  ForwardContext& context) const override {
    const std::vector<at::Tensor> pyramid = fpn_->forward({maps.end() - kMaps, maps.end()});
    const int64_t images = maps[0].size(0);
    std::vector<std::vector<at::Tensor>> found(3);  // each map's boxes, scores and labels
    for (size_t level = 0; level < pyramid.size(); ++level) {
      if (context.ShouldStop()) return {};
      const at::Tensor& map = pyramid[level];
      const std::string name = "head.level" + std::to_string(level);
      const at::Tensor logits = classes_->forward(map), deltas = boxes_->forward(map);
      if (context.Recording()) {
        context.Record(name, "map", map);
        context.Record(name, "class_logits", logits);
        context.Record(name, "box_deltas", deltas);
      }
      const BestScores best =
          BestOfRowsAbove(logits, context.Fullest() ? 0 : options_.score_threshold,
                          std::min(kCandidates, logits.size(1)));
      const at::Tensor anchor = best.indices.floor_divide(num_classes_);
      const at::Tensor moved = deltas.view({images, -1, 4})
                                   .gather(1, anchor.unsqueeze(2).expand({-1, -1, 4}))
                                   .to(at::kFloat);
      found[0].push_back(DecodeBoxes(moved.flatten(0, 1),
                                     AnchorsOf(level, map).Boxes(anchor.flatten()), {1, 1, 1, 1},
                                     options_.conventions)
                             .view_as(moved));
      found[1].push_back(best.scores);
      found[2].push_back(best.indices.remainder(num_classes_));
    }
    return {at::cat(found[0], 1), at::cat(found[1], 1), at::cat(found[2], 1)};
  }

  AnchorOutputs Outputs(const std::vector<at::Tensor>& maps) const override {
    const std::vector<at::Tensor> pyramid = fpn_->forward({maps.end() - kMaps, maps.end()});
    const int64_t images = maps[0].size(0);
    std::vector<at::Tensor> logits, deltas, anchors;
    for (size_t level = 0; level < pyramid.size(); ++level) {
      const at::Tensor& map = pyramid[level];
      logits.push_back(classes_->forward(map).view({images, -1, num_classes_}));
      deltas.push_back(boxes_->forward(map).view({images, -1, 4}));
      anchors.push_back(
          AnchorsOf(level, map)
              .Boxes(at::arange(deltas.back().size(1), map.options().dtype(at::kLong))));
    }
    return {.logits = at::cat(logits, 1),
            .deltas = at::cat(deltas, 1),
            .anchors = at::cat(anchors),
            .conventions = options_.conventions};
  }

  bool finishes() const override { return true; }
  std::vector<at::Tensor> Finish(std::vector<at::Tensor> images,
                                 std::span<const ImageSize> contents) const override {
    std::vector<std::vector<at::Tensor>> found;
    for (size_t i = 0; i < contents.size(); ++i) {
      const auto image = static_cast<int64_t>(i);
      found.push_back(SelectDetections({images[0][image], images[1][image], images[2][image]},
                                       contents[i], options_));
    }
    return StackedOutputs(found);
  }

 private:
  static std::vector<ModelInfo::FeatureMap> MapsOf(const ModelInfo& backbone) {
    const auto& all = backbone.features;
    TORCH_CHECK_VALUE(all.size() >= kMaps, "the head 'retinanet' stands on ", kMaps,
                      " feature maps, and ", backbone.backbone, " has ", all.size());
    return {all.end() - kMaps, all.end()};
  }

  static int64_t Width(const HeadSite& site) {
    const int64_t width = WidthOf(site, kPublishedChannels);
    TORCH_CHECK_VALUE(
        site.detection.conventions != Conventions::kTorchvision || width % kNormGroups == 0,
        "by TORCHVISION's conventions the head 'retinanet' has norms of ", kNormGroups,
        " groups: its channels are a multiple of that, not ", width);
    return width;
  }

  static int64_t Classes(const HeadSite& site) {
    const int64_t classes = CocoClasses(site);
    TORCH_CHECK_VALUE(classes <= kMostClasses, "the head 'retinanet' tells ", kMostClasses,
                      " classes apart at most, not ", classes,
                      ": at that many, the logits of an image of 800x1344 take 4 GB");
    return classes;
  }

  // With the numbers that the description leaves open.
  static DetectionOptions Published(DetectionOptions options) {
    CheckDetectionOptions(options);
    if (options.detections_per_image == 0) {
      options.detections_per_image = options.conventions == Conventions::kTorchvision ? 300 : 100;
    }
    return options;
  }

  bool normed() const { return options_.conventions == Conventions::kTorchvision; }

  int64_t StrideOf(size_t level) const { return first_stride_ << level; }

  at::Tensor ShapesOf(size_t level) const {
    std::vector<double> sizes;
    for (int64_t i = 0; i < kSizesPerOctave; ++i) {
      const double size = 4.0 * static_cast<double>(StrideOf(level)) *
                          std::pow(2, static_cast<double>(i) / kSizesPerOctave);
      sizes.push_back(normed() ? std::floor(size) : size);
    }
    return AnchorShapes(sizes, {kRatios.begin(), kRatios.end()}, options_.conventions);
  }

  Anchors AnchorsOf(size_t level, const at::Tensor& map) const {
    return {anchor_shapes_[level], AnchorStep(input_, map, StrideOf(level), options_.conventions),
            map.size(3)};
  }

  const DetectionOptions options_;
  const int64_t num_classes_;
  const ImageSize input_;
  const int64_t first_stride_;
  const std::shared_ptr<Fpn> fpn_;
  const std::shared_ptr<Branch> classes_;
  const std::shared_ptr<Branch> boxes_;
  std::vector<at::Tensor> anchor_shapes_;  // of each level
};

}  // namespace

HeadEntry RetinaNetEntry() {
  return {"retinanet", "boxes and classes in one stage, on a feature pyramid", Task::kDetection,
          [](const HeadSite& site) { return std::make_shared<RetinaNet>(site); }};
}

}  // namespace fovea::models
