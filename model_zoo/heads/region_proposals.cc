#include "model_zoo/heads/region_proposals.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/vision/nms/op.h"
#include "model_zoo/heads/detections.h"

namespace fovea::models {
namespace {

constexpr int64_t kCandidates = 1000;  // of one map, and of an image
constexpr double kIou = 0.7;
constexpr double kLeastSide = 1e-3;  // TORCHVISION
constexpr double kSize = 8;          // of an anchor, in steps
constexpr std::array<double, 3> kRatios = {0.5, 1, 2};
constexpr int64_t kAnchors = std::ssize(kRatios);

}  // namespace

class RegionProposals::RpnHead final : public Layer {
 public:
  RpnHead(int64_t channels, int64_t depth)
      : layers_(Add<LayerList<ConvBlock>>("conv")),
        objectness_(Add<Conv2d>("cls_logits", Conv2dOptions::Square(channels, kAnchors, 1))),
        deltas_(Add<Conv2d>("bbox_pred", Conv2dOptions::Square(channels, 4 * kAnchors, 1))) {
    for (int64_t i = 0; i < depth; ++i) {
      layers_->Emplace(Conv2dOptions::Square(channels, channels, 3, 1, 1), /*normed=*/false);
    }
  }

  Scores forward(at::Tensor map) const {
    for (const auto& layer : layers_->list()) map = layer->forward(map).relu();
    const auto by_place = [](const at::Tensor& out) {
      return out.permute({0, 2, 3, 1}).flatten(1);
    };
    return {by_place(objectness_->forward(map)), by_place(deltas_->forward(map))};
  }

 private:
  const std::shared_ptr<LayerList<ConvBlock>> layers_;
  const std::shared_ptr<Conv2d> objectness_;
  const std::shared_ptr<Conv2d> deltas_;
};

RegionProposals::RegionProposals(int64_t channels, const ImageSize& input,
                                 std::vector<int64_t> strides, Conventions conventions)
    : input_(input),
      strides_(std::move(strides)),
      conventions_(conventions),
      head_(Add<RpnHead>("head", channels, conventions == Conventions::kTorchvision ? 2 : 1)) {
  for (const int64_t stride : strides_) {
    anchor_shapes_.push_back(AnchorShapes({kSize * static_cast<double>(stride)},
                                          {kRatios.begin(), kRatios.end()}, conventions));
  }
}

void RegionProposals::Prepare(const Placement& placement) {
  for (at::Tensor& shapes : anchor_shapes_) shapes = shapes.to(placement.device);
  Layer::Prepare(placement);
}

RegionProposals::Scores RegionProposals::Score(const at::Tensor& map) const {
  return head_->forward(map);
}

Anchors RegionProposals::AnchorsOf(size_t level, const at::Tensor& map) const {
  return {anchor_shapes_[level], AnchorStep(input_, map, strides_[level], conventions_),
          map.size(3)};
}

std::vector<at::Tensor> RegionProposals::forward(const std::vector<at::Tensor>& pyramid,
                                                 std::span<const ImageSize> contents) const {
  std::vector<Scores> scores;
  for (const at::Tensor& map : pyramid) scores.push_back(Score(map));
  return Propose(pyramid, scores, contents);
}

at::Tensor RegionProposals::AllAnchors(const std::vector<at::Tensor>& pyramid) const {
  std::vector<at::Tensor> all;
  for (size_t level = 0; level < pyramid.size(); ++level) {
    const at::Tensor& map = pyramid[level];
    all.push_back(AnchorsOf(level, map)
                      .Boxes(at::arange(kAnchors * map.size(2) * map.size(3),
                                        map.options().dtype(at::kLong))));
  }
  return at::cat(all);
}

std::vector<at::Tensor> RegionProposals::Propose(const std::vector<at::Tensor>& pyramid,
                                                 const std::vector<Scores>& all,
                                                 std::span<const ImageSize> contents) const {
  const auto images = static_cast<int64_t>(contents.size());
  std::vector<at::Tensor> boxes, scores, levels;  // of each map: [N, most, ...]
  for (size_t level = 0; level < pyramid.size(); ++level) {
    const Scores& found = all[level];
    const Anchors anchors = AnchorsOf(level, pyramid[level]);
    const int64_t most = std::min(kCandidates, found.objectness.size(1));
    const at::Tensor objectness = found.objectness.to(at::kFloat);
    const at::Tensor index = BestOfRows(objectness, most), best = objectness.gather(1, index);
    const at::Tensor deltas = found.deltas.view({images, -1, 4})
                                  .gather(1, index.unsqueeze(2).expand({-1, -1, 4}))
                                  .to(at::kFloat)
                                  .view({-1, 4});
    boxes.push_back(DecodeBoxes(deltas, anchors.Boxes(index.flatten()), {1, 1, 1, 1}, conventions_)
                        .view({images, most, 4}));
    scores.push_back(best.sigmoid());
    levels.push_back(at::full({most}, static_cast<int64_t>(level), index.options()));
  }
  const at::Tensor all_boxes = at::cat(boxes, 1), all_scores = at::cat(scores, 1);
  const at::Tensor all_levels = at::cat(levels);
  std::vector<at::Tensor> proposals;
  for (int64_t i = 0; i < images; ++i) {
    proposals.push_back(Select(all_boxes[i], all_scores[i], all_levels, contents[i]));
  }
  return proposals;
}

at::Tensor RegionProposals::Select(const at::Tensor& boxes, const at::Tensor& scores,
                                   const at::Tensor& levels, const ImageSize& content) const {
  const at::Tensor clipped = Clipped(boxes, content);
  const at::Tensor sides = clipped.slice(1, 2) - clipped.slice(1, 0, 2);
  // What is no number stays: whoever finds it in the outputs knows that the model is broken.
  const at::Tensor none =
      conventions_ == Conventions::kTorchvision ? sides < kLeastSide : sides <= 0;
  const at::Tensor index = none.any(1).logical_not().nonzero().squeeze(1);
  const at::Tensor kept = clipped.index_select(0, index), best = scores.index_select(0, index);
  const at::Tensor apart = GroupsApart(kept, levels.index_select(0, index), content);
  const at::Tensor chosen = kernels::Nms(apart, best.to(at::kDouble), kIou);
  return kept.index_select(0, chosen.slice(0, 0, kCandidates));
}

}  // namespace fovea::models
