// Mask R-CNN: regions that may hold an object, then of each its class, its box and its mask.
//   He et al., ICCV 2017; Ren et al., NIPS 2015. TORCHVISION: maskrcnn_resnet50_fpn_v2 of
//   torchvision 0.26 (mask_rcnn.py, roi_heads.py), whose names these are: batch norms, four
//   convolutions before the boxes' linear layer, class 0 is the background and counts.
//   MMDETECTION: mask_rcnn_r50_fpn of mmdetection 3: no norms, two linear layers ("fc6", "fc7" as
//   in torchvision's first version), the background is the last class and does not count.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/heads/anchors.h"
#include "model_zoo/heads/detections.h"
#include "model_zoo/heads/region_features.h"
#include "model_zoo/heads/region_proposals.h"
#include "model_zoo/heads/register.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/conv_block.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/necks/fpn.h"

namespace fovea::models {
namespace {

constexpr int64_t kChannels = 256;
constexpr int64_t kBoxSide = 7, kMaskSide = 14;  // of a region's features
constexpr int64_t kRepresentation = 1024;
constexpr std::array<double, 4> kBoxWeights = {10, 10, 5, 5};
constexpr double kLeastSide = 1e-2;  // TORCHVISION
// Of the boxes' and masks' last layers: 1.6 GB of weights.
constexpr int64_t kMostClasses = 100'000;

Conv2dOptions Convolution() { return Conv2dOptions::Square(kChannels, kChannels, 3, 1, 1); }

// From a region's features to a vector.
class BoxHead final : public Layer {
 public:
  explicit BoxHead(Conventions conventions) {
    constexpr int64_t kFlat = kChannels * kBoxSide * kBoxSide;
    if (conventions == Conventions::kTorchvision) {
      for (int i = 0; i < 4; ++i) {
        convolutions_.push_back(Add<ConvBlock>(std::to_string(i), Convolution(), /*normed=*/true));
      }
      linear_ = {Add<Linear>("5", kFlat, kRepresentation)};
    } else {
      linear_ = {Add<Linear>("fc6", kFlat, kRepresentation),
                 Add<Linear>("fc7", kRepresentation, kRepresentation)};
    }
  }

  // [K, kChannels, kBoxSide, kBoxSide] -> [K, kRepresentation].
  at::Tensor forward(at::Tensor regions) const {
    for (const auto& convolution : convolutions_) regions = convolution->forward(regions).relu();
    at::Tensor flat = regions.flatten(1);
    for (const auto& layer : linear_) flat = layer->forward(flat).relu();
    return flat;
  }

 private:
  std::vector<std::shared_ptr<ConvBlock>> convolutions_;
  std::vector<std::shared_ptr<Linear>> linear_;
};

class BoxPredictor final : public Layer {
 public:
  BoxPredictor(int64_t scores, int64_t boxes)
      : scores_(Add<Linear>("cls_score", kRepresentation, scores)),
        boxes_(Add<Linear>("bbox_pred", kRepresentation, 4 * boxes)) {}

  at::Tensor Logits(const at::Tensor& regions) const { return scores_->forward(regions); }
  at::Tensor Deltas(const at::Tensor& regions) const { return boxes_->forward(regions); }

 private:
  const std::shared_ptr<Linear> scores_;
  const std::shared_ptr<Linear> boxes_;
};

// A 2x2 convolution that doubles the size (parameters as torch's ConvTranspose2d), and a 1x1 one to
// the classes.
class MaskPredictor final : public Layer {
 public:
  explicit MaskPredictor(int64_t classes)
      : upsample_(Add<Upsample>("conv5_mask")),
        logits_(Add<Conv2d>("mask_fcn_logits", Conv2dOptions::Square(kChannels, classes, 1))) {}

  at::Tensor forward(const at::Tensor& regions) const {
    return logits_->forward(upsample_->forward(regions).relu());
  }

 private:
  class Upsample final : public Layer {
   public:
    Upsample()
        : weight_(AddParameter("weight", {kChannels, kChannels, 2, 2})),
          bias_(AddParameter("bias", {kChannels})) {}
    at::Tensor forward(const at::Tensor& map) const {
      return at::conv_transpose2d(map, weight_, bias_, /*stride=*/{2, 2});
    }

   private:
    const at::Tensor weight_;
    const at::Tensor bias_;
  };

  const std::shared_ptr<Upsample> upsample_;
  const std::shared_ptr<Conv2d> logits_;
};

class RoiHeads final : public Layer {
 public:
  RoiHeads(int64_t num_classes, Conventions conventions)
      : box_head_(Add<BoxHead>("box_head", conventions)),
        box_predictor_(Add<BoxPredictor>(
            "box_predictor",
            conventions == Conventions::kTorchvision ? num_classes : num_classes + 1, num_classes)),
        mask_head_(Add<LayerList<ConvBlock>>("mask_head")),
        mask_predictor_(Add<MaskPredictor>("mask_predictor", num_classes)) {
    for (int i = 0; i < 4; ++i) {
      mask_head_->Emplace(Convolution(), conventions == Conventions::kTorchvision);
    }
  }

  struct Boxes {
    at::Tensor logits;  // [K, scores]
    at::Tensor deltas;  // [K, 4 * classes]
  };
  Boxes PredictBoxes(const at::Tensor& regions) const {
    const at::Tensor flat = box_head_->forward(regions);
    return {box_predictor_->Logits(flat), box_predictor_->Deltas(flat)};
  }

  // [K, classes, 2 * kMaskSide, 2 * kMaskSide].
  at::Tensor PredictMasks(at::Tensor regions) const {
    for (const auto& layer : mask_head_->list()) regions = layer->forward(regions).relu();
    return mask_predictor_->forward(regions);
  }

 private:
  const std::shared_ptr<BoxHead> box_head_;
  const std::shared_ptr<BoxPredictor> box_predictor_;
  const std::shared_ptr<LayerList<ConvBlock>> mask_head_;
  const std::shared_ptr<MaskPredictor> mask_predictor_;
};

class MaskRcnn final : public Head {
 public:
  explicit MaskRcnn(const HeadSite& site)
      : options_(Published(site.detection)),
        num_classes_(Classes(site)),
        strides_(StridesOf(site.backbone)),
        fpn_(Add<Fpn>("fpn", ChannelsOf(site.backbone), kChannels, Fpn::Extra::kEverySecond,
                      torchvision())),
        proposals_(Add<RegionProposals>(
            "rpn", kChannels, ImageSize{site.backbone.image_height, site.backbone.image_width},
            strides_, options_.conventions)),
        heads_(Add<RoiHeads>("roi_heads", num_classes_, options_.conventions)) {}

  std::vector<ModelInfo::Output> outputs() const override {
    std::vector<ModelInfo::Output> all = DetectionOutputs(options_.detections_per_image);
    all.push_back({"masks", {options_.detections_per_image, 2 * kMaskSide, 2 * kMaskSide}});
    return all;
  }
  int64_t num_classes() const override { return num_classes_; }

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps,
                                  ForwardContext& context) const override {
    const std::vector<at::Tensor> pyramid = fpn_->forward(maps);
    std::vector<ImageSize> contents;
    for (int64_t i = 0; i < maps[0].size(0); ++i) contents.push_back(context.Content(i, input()));
    if (context.ShouldStop()) return {};
    const std::vector<at::Tensor> proposals = proposals_->forward(pyramid, contents);
    if (context.Recording()) RecordProposals(pyramid, proposals, context);
    if (context.ShouldStop()) return {};
    // The coarsest map is for proposals only.
    const std::vector<at::Tensor> finer(pyramid.begin(), pyramid.end() - 1);
    const RoiHeads::Boxes found = heads_->PredictBoxes(Features(finer, proposals, kBoxSide));
    context.Record("head.boxes", "logits", found.logits);
    context.Record("head.boxes", "deltas", found.deltas);
    if (context.ShouldStop()) return {};

    std::vector<std::vector<at::Tensor>> outputs;  // of each image
    std::vector<at::Tensor> boxes;
    int64_t first = 0;
    for (size_t i = 0; i < proposals.size(); ++i) {
      const int64_t count = proposals[i].size(0);
      const Candidates candidates =
          CandidatesOf(found.logits.narrow(0, first, count), found.deltas.narrow(0, first, count),
                       proposals[i], contents[i]);
      first += count;
      outputs.push_back(SelectDetections(candidates, contents[i], options_));
      const int64_t told =
          context.Fullest() ? options_.detections_per_image : outputs[i][3].item<int64_t>();
      boxes.push_back(outputs[i][0].slice(0, 0, told));
    }
    AddMasks(finer, boxes, outputs, context);
    std::vector<at::Tensor> stacked;
    for (size_t output = 0; output < outputs[0].size(); ++output) {
      std::vector<at::Tensor> all;
      for (const auto& image : outputs) all.push_back(image[output]);
      stacked.push_back(at::stack(all));
    }
    return stacked;
  }

 private:
  // COCO's as published: torchvision counts the background and the numbers that COCO has left out.
  static int64_t Classes(const HeadSite& site) {
    const bool gaps = site.detection.conventions == Conventions::kTorchvision;
    const int64_t classes = site.num_classes > 0 ? site.num_classes : gaps ? 91 : 80;
    TORCH_CHECK_VALUE(classes <= kMostClasses, "the head 'mask_rcnn' tells ", kMostClasses,
                      " classes apart at most, not ", classes);
    TORCH_CHECK_VALUE(!gaps || classes > 1,
                      "by TORCHVISION's conventions the background is one of the head's classes: "
                      "there are at least 2, not ",
                      classes);
    return classes;
  }

  static DetectionOptions Published(DetectionOptions options) {
    CheckDetectionOptions(options);
    if (options.detections_per_image == 0) options.detections_per_image = 100;
    return options;
  }

  static std::vector<int64_t> ChannelsOf(const ModelInfo& backbone) {
    std::vector<int64_t> channels;
    for (const ModelInfo::FeatureMap& map : backbone.features) channels.push_back(map.channels);
    return channels;
  }
  // Of the pyramid's maps.
  std::vector<int64_t> StridesOf(const ModelInfo& backbone) {
    input_ = {backbone.image_height, backbone.image_width};
    std::vector<int64_t> strides;
    for (const ModelInfo::FeatureMap& map : backbone.features) strides.push_back(map.stride);
    strides.push_back(2 * strides.back());
    return strides;
  }

  bool torchvision() const { return options_.conventions == Conventions::kTorchvision; }
  const ImageSize& input() const { return input_; }

  at::Tensor Features(const std::vector<at::Tensor>& pyramid, const std::vector<at::Tensor>& boxes,
                      int64_t side) const {
    return RegionFeatures(pyramid, std::span(strides_).first(pyramid.size()), boxes, side,
                          options_.conventions);
  }

  void RecordProposals(const std::vector<at::Tensor>& pyramid,
                       const std::vector<at::Tensor>& proposals, ForwardContext& context) const {
    for (size_t level = 0; level < pyramid.size(); ++level) {
      const std::string name = "head.level" + std::to_string(level);
      const RegionProposals::Scores scores = proposals_->Score(pyramid[level]);
      context.Record(name, "map", pyramid[level]);
      context.Record(name, "objectness", scores.objectness);
      context.Record(name, "box_deltas", scores.deltas);
    }
    for (size_t i = 0; i < proposals.size(); ++i) {
      context.Record("head.proposals", std::to_string(i), proposals[i]);
    }
  }

  // Of one image: each of its regions as each of the classes whose score is above the threshold.
  Candidates CandidatesOf(const at::Tensor& logits, const at::Tensor& deltas,
                          const at::Tensor& regions, const ImageSize& content) const {
    const at::Tensor all = logits.to(at::kFloat).softmax(1);
    const int64_t background = torchvision() ? 1 : 0;  // in front
    const at::Tensor scores = all.slice(1, background, background + foreground());
    // What is no number passes, as in RetinaNet.
    const at::Tensor above = (scores <= options_.score_threshold).logical_not().nonzero();
    const at::Tensor region = above.select(1, 0), label = above.select(1, 1) + background;
    const at::Tensor moved =
        deltas.view({-1, num_classes_, 4}).index({region, label}).to(at::kFloat);
    const at::Tensor boxes =
        DecodeBoxes(moved, regions.index_select(0, region), kBoxWeights, options_.conventions);
    at::Tensor best = scores.index({region, above.select(1, 1)});
    if (torchvision()) {  // drops those without a side to speak of
      const auto height = static_cast<double>(content.height),
                 width = static_cast<double>(content.width);
      const at::Tensor clipped =
          boxes.clamp_min(0).minimum(at::tensor({width, height, width, height}, at::kFloat));
      const at::Tensor sides = clipped.slice(1, 2) - clipped.slice(1, 0, 2);
      best = best.masked_fill((sides < kLeastSide).any(1), -1);
    }
    return {boxes, best, label};
  }

  // Classes that are not the background.
  int64_t foreground() const { return torchvision() ? num_classes_ - 1 : num_classes_; }

  // Behind the outputs of each image, whose boxes these are: in each box the probability that a
  // place belongs to the object.
  void AddMasks(const std::vector<at::Tensor>& pyramid, const std::vector<at::Tensor>& boxes,
                std::vector<std::vector<at::Tensor>>& outputs, ForwardContext& context) const {
    constexpr int64_t kSide = 2 * kMaskSide;
    const at::Tensor features = Features(pyramid, boxes, kMaskSide);
    at::Tensor logits;
    if (features.size(0) > 0) {
      logits = heads_->PredictMasks(features);
      context.Record("head.masks", "logits", logits);
    }
    int64_t first = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const int64_t count = boxes[i].size(0);
      const at::Tensor masks = at::zeros({options_.detections_per_image, kSide, kSide}, at::kFloat);
      if (count > 0) {
        const at::Tensor own = outputs[i][2].slice(0, 0, count).view({count, 1, 1, 1});
        const at::Tensor of_class = logits.narrow(0, first, count)
                                        .to(at::kFloat)
                                        .gather(1, own.expand({count, 1, kSide, kSide}))
                                        .squeeze(1);
        masks.slice(0, 0, count).copy_(of_class.sigmoid());
      }
      outputs[i].push_back(masks);
      first += count;
    }
  }

  const DetectionOptions options_;
  const int64_t num_classes_;
  ImageSize input_;
  const std::vector<int64_t> strides_;
  const std::shared_ptr<Fpn> fpn_;
  const std::shared_ptr<RegionProposals> proposals_;
  const std::shared_ptr<RoiHeads> heads_;
};

}  // namespace

HeadEntry MaskRcnnEntry() {
  return {"mask_rcnn", "boxes, classes and masks in two stages, on a feature pyramid",
          Task::kDetection, [](const HeadSite& site) { return std::make_shared<MaskRcnn>(site); }};
}

}  // namespace fovea::models
