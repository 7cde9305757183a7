#include "model_zoo/training/losses/anchor_loss.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model_zoo/training/losses/box_losses.h"

namespace fovea::models::training {
namespace {

at::Tensor BoxLossOf(const at::Tensor& deltas, const at::Tensor& anchors, const at::Tensor& boxes,
                     const AnchorOutputs& outputs, BoxLoss loss) {
  if (loss == BoxLoss::kSmoothL1) {
    return SmoothL1Sum(deltas, EncodeBoxes(boxes, anchors, outputs.weights), /*beta=*/1);
  }
  return GeneralizedIouLoss(DecodeBoxes(deltas, anchors, outputs.weights, outputs.conventions),
                            boxes)
      .sum();
}

}  // namespace

AnchorLoss LossOfAnchors(const AnchorOutputs& outputs, const std::vector<ImageTruth>& images,
                         const AnchorLossOptions& options) {
  const at::Tensor logits = outputs.logits.to(at::kFloat);
  const at::Tensor targets = at::zeros_like(logits);
  const at::Tensor weights = at::zeros({logits.size(0), logits.size(1), 1}, logits.options());
  std::vector<at::Tensor> boxes;
  for (size_t i = 0; i < images.size(); ++i) {
    const auto image = static_cast<int64_t>(i);
    const at::Tensor matched = MatchObjects(outputs.anchors, images[i], options.match);
    const at::Tensor anchor = (matched >= 0).nonzero().squeeze(1);
    const double share = 1.0 / static_cast<double>(std::max<int64_t>(1, anchor.size(0)));
    weights[image].masked_fill_((matched != kBetween).unsqueeze(1), share);
    if (anchor.size(0) == 0) continue;
    const at::Tensor object = matched.index_select(0, anchor);
    targets[image].index_put_({anchor, images[i].labels.index_select(0, object)},
                              at::scalar_tensor(1, targets.options()));
    boxes.push_back(share * BoxLossOf(outputs.deltas[image].index_select(0, anchor).to(at::kFloat),
                                      outputs.anchors.index_select(0, anchor),
                                      images[i].boxes.index_select(0, object), outputs,
                                      options.box_loss));
  }
  const double each = 1.0 / static_cast<double>(images.size());
  return {
      .classification = each * (SigmoidFocalLoss(logits, targets, options.focal) * weights).sum(),
      // Of no box the gradient is zero, not missing.
      .boxes = boxes.empty() ? 0 * outputs.deltas.sum() : each * at::stack(boxes).sum()};
}

}  // namespace fovea::models::training
