#include "model_zoo/heads/two_stage.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "model_zoo/heads/anchors.h"
#include "model_zoo/heads/region_features.h"

namespace fovea::models {
namespace {

constexpr int64_t kPublishedChannels = 256;
constexpr int64_t kPublishedDetections = 100;
constexpr double kLeastSide = 1e-2;  // TORCHVISION
// A logit, a score and a box of each for each of 1,000 regions, FP32: 2.4 GB an image. The last
// layers then have 2.2 GB of weights.
constexpr int64_t kMostClasses = 100'000;

int64_t Classes(const HeadSite& site, const std::string& head) {
  const int64_t classes = CocoClasses(site);
  TORCH_CHECK_VALUE(classes <= kMostClasses, "the head '", head, "' tells ", kMostClasses,
                    " classes apart at most, not ", classes,
                    ": at that many, what it says of an image's regions takes 2.4 GB");
  TORCH_CHECK_VALUE(site.detection.conventions != Conventions::kTorchvision || classes > 1,
                    "by TORCHVISION's conventions the background is one of the head's classes: "
                    "there are at least 2, not ",
                    classes);
  return classes;
}

DetectionOptions Published(DetectionOptions options) {
  CheckDetectionOptions(options);
  if (options.detections_per_image == 0) options.detections_per_image = kPublishedDetections;
  return options;
}

// Of the pyramid's maps.
std::vector<int64_t> StridesOf(const ModelInfo& backbone) {
  std::vector<int64_t> strides;
  for (const ModelInfo::FeatureMap& map : backbone.features) strides.push_back(map.stride);
  strides.push_back(2 * strides.back());
  return strides;
}

RoiHeads::Shape ShapeOf(const TwoStageDesign& design, int64_t channels, int64_t classes,
                        Conventions conventions) {
  return {.stages = design.box_weights.size(),
          .channels = channels,
          .scores = conventions == Conventions::kTorchvision ? classes : classes + 1,
          .boxes = design.box_for_each_class ? classes : 1,
          .masks = classes};
}

}  // namespace

TwoStageHead::TwoStageHead(const HeadSite& site, TwoStageDesign design)
    : design_(std::move(design)),
      options_(Published(site.detection)),
      num_classes_(Classes(site, design_.name)),
      input_{site.backbone.image_height, site.backbone.image_width},
      strides_(StridesOf(site.backbone)),
      fpn_(Add<Fpn>("fpn", ChannelsOf(site.backbone.features), WidthOf(site, kPublishedChannels),
                    Fpn::Extra::kEverySecond, torchvision())),
      proposals_(Add<RegionProposals>("rpn", WidthOf(site, kPublishedChannels), input_, strides_,
                                      options_.conventions)),
      heads_(Add<RoiHeads>(
          "roi_heads",
          ShapeOf(design_, WidthOf(site, kPublishedChannels), num_classes_, options_.conventions),
          options_.conventions)) {}

std::vector<ModelInfo::Output> TwoStageHead::outputs() const {
  std::vector<ModelInfo::Output> all = DetectionOutputs(options_.detections_per_image);
  all.push_back(
      {"masks", {options_.detections_per_image, MaskPredictor::kSide, MaskPredictor::kSide}});
  return all;
}

std::vector<at::Tensor> TwoStageHead::forward(const std::vector<at::Tensor>& maps,
                                              ForwardContext& context) const {
  const std::vector<at::Tensor> pyramid = fpn_->forward(maps);
  std::vector<ImageSize> contents;
  for (int64_t i = 0; i < maps[0].size(0); ++i) contents.push_back(context.Content(i, input_));
  if (context.ShouldStop()) return {};
  const std::vector<at::Tensor> proposals = proposals_->forward(pyramid, contents);
  if (context.Recording()) RecordProposals(pyramid, proposals, context);
  const auto finer = std::span(pyramid).first(pyramid.size() - 1);
  const BoxOutputs found = RunBoxStages(finer, proposals, contents, context);
  if (found.boxes.empty() || context.ShouldStop()) return {};

  std::vector<std::vector<at::Tensor>> outputs;  // of each image
  std::vector<at::Tensor> boxes;
  int64_t first = 0;
  for (size_t i = 0; i < found.boxes.size(); ++i) {
    const int64_t count = found.boxes[i].size(0);
    const Candidates candidates =
        CandidatesOf(found.logits.narrow(0, first, count), found.deltas.narrow(0, first, count),
                     found.boxes[i], contents[i]);
    first += count;
    outputs.push_back(SelectDetections(candidates, contents[i], options_));
    const int64_t detections =
        context.Fullest() ? options_.detections_per_image : outputs[i][3].item<int64_t>();
    boxes.push_back(outputs[i][0].slice(0, 0, detections));
  }
  AddMasks(finer, boxes, outputs, context);
  return StackedOutputs(outputs);
}

// Proposals as Ren et al., section 3.1.3; predictors as Girshick, ICCV 2015, section 2.3; the
// linear layers before them as mmdetection; the convolutions of regions as usual.
std::optional<ParameterInit> TwoStageHead::InitOf(const std::string& parameter,
                                                  at::IntArrayRef shape) const {
  if (shape.size() < 2) return std::nullopt;
  if (parameter.starts_with("fpn."))
    return ParameterInit{ParameterInit::Kind::kUniform, Fpn::InitBound(shape)};
  if (parameter.starts_with("rpn.") || parameter.ends_with(".cls_score.weight")) {
    return ParameterInit{ParameterInit::Kind::kNormal, 0.01};
  }
  if (parameter.ends_with(".bbox_pred.weight"))
    return ParameterInit{ParameterInit::Kind::kNormal, 0.001};
  if (shape.size() == 2) return GlorotUniform(shape[1], shape[0]);
  return std::nullopt;
}

at::Tensor TwoStageHead::Features(std::span<const at::Tensor> pyramid,
                                  const std::vector<at::Tensor>& boxes, int64_t side) const {
  return RegionFeatures({pyramid.begin(), pyramid.end()}, std::span(strides_).first(pyramid.size()),
                        boxes, side, options_.conventions);
}

TwoStageHead::BoxOutputs TwoStageHead::RunBoxStages(std::span<const at::Tensor> pyramid,
                                                    std::vector<at::Tensor> boxes,
                                                    std::span<const ImageSize> contents,
                                                    ForwardContext& context) const {
  BoxOutputs found;
  const size_t stages = heads_->stages();
  for (size_t stage = 0; stage < stages; ++stage) {
    if (context.ShouldStop()) return {};
    const std::string name = "head.boxes" + (stages > 1 ? std::to_string(stage) : "");
    const RoiHeads::Boxes outputs =
        heads_->PredictBoxes(stage, Features(pyramid, boxes, BoxHead::kSide));
    context.Record(name, "logits", outputs.logits);
    context.Record(name, "deltas", outputs.deltas);
    const at::Tensor logits = outputs.logits.to(at::kFloat);
    found.logits = stage == 0 ? logits : found.logits + logits;
    found.deltas = outputs.deltas.to(at::kFloat);
    if (stage + 1 == stages) break;
    int64_t first = 0;
    for (size_t i = 0; i < boxes.size(); ++i) {
      const int64_t count = boxes[i].size(0);
      boxes[i] = Clipped(DecodeBoxes(found.deltas.narrow(0, first, count), boxes[i],
                                     design_.box_weights[stage], options_.conventions),
                         contents[i]);
      if (context.Recording()) context.Record(name, "moved" + std::to_string(i), boxes[i]);
      first += count;
    }
  }
  if (stages > 1) found.logits = found.logits / static_cast<double>(stages);
  found.boxes = std::move(boxes);
  return found;
}

void TwoStageHead::RecordProposals(const std::vector<at::Tensor>& pyramid,
                                   const std::vector<at::Tensor>& proposals,
                                   ForwardContext& context) const {
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
Candidates TwoStageHead::CandidatesOf(const at::Tensor& logits, const at::Tensor& deltas,
                                      const at::Tensor& regions, const ImageSize& content) const {
  const at::Tensor all = logits.softmax(1);
  const int64_t background = background_classes();
  const at::Tensor scores = all.slice(1, background, background + foreground());
  // What is no number passes, as in RetinaNet.
  const at::Tensor above = (scores <= options_.score_threshold).logical_not().nonzero();
  const at::Tensor region = above.select(1, 0), label = above.select(1, 1) + background;
  const int64_t boxes_of_each = design_.box_for_each_class ? num_classes_ : 1;
  const at::Tensor which = design_.box_for_each_class ? label : at::zeros_like(label);
  const at::Tensor moved = deltas.view({-1, boxes_of_each, 4}).index({region, which});
  const at::Tensor boxes = DecodeBoxes(moved, regions.index_select(0, region),
                                       design_.box_weights.back(), options_.conventions);
  at::Tensor best = scores.index({region, above.select(1, 1)});
  if (torchvision()) {  // drops those without a side to speak of
    const at::Tensor clipped = Clipped(boxes, content);
    const at::Tensor sides = clipped.slice(1, 2) - clipped.slice(1, 0, 2);
    best = best.masked_fill((sides < kLeastSide).any(1), -1);
  }
  return {boxes, best, label};
}

// Behind the outputs of each image, whose boxes these are: the mean of the stages' probabilities.
void TwoStageHead::AddMasks(std::span<const at::Tensor> pyramid,
                            const std::vector<at::Tensor>& boxes,
                            std::vector<std::vector<at::Tensor>>& outputs,
                            ForwardContext& context) const {
  constexpr int64_t kSide = MaskPredictor::kSide;
  const at::Tensor features = Features(pyramid, boxes, MaskHead::kSide);
  const size_t stages = features.size(0) > 0 ? heads_->stages() : 0;
  std::vector<at::Tensor> labels;
  for (size_t i = 0; i < boxes.size(); ++i) {
    labels.push_back(outputs[i][2].slice(0, 0, boxes[i].size(0)));
  }
  const at::Tensor own = at::cat(labels);
  const at::TensorOptions numbers = features.options().dtype(at::kFloat);
  at::Tensor masks = at::zeros({features.size(0), kSide, kSide}, numbers);
  for (size_t stage = 0; stage < stages; ++stage) {
    const at::Tensor logits = heads_->PredictMasks(stage, features, own);
    context.Record("head.masks" + (stages > 1 ? std::to_string(stage) : ""), "logits", logits);
    masks += logits.to(at::kFloat).sigmoid();
  }
  if (stages > 1) masks /= static_cast<double>(stages);
  int64_t first = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int64_t count = boxes[i].size(0);
    const at::Tensor all = at::zeros({options_.detections_per_image, kSide, kSide}, numbers);
    all.slice(0, 0, count).copy_(masks.narrow(0, first, count));
    outputs[i].push_back(all);
    first += count;
  }
}

}  // namespace fovea::models
