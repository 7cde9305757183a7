#include "model_zoo/heads/detections.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kernels/vision/nms/op.h"

namespace fovea::models {
namespace {

// Logits that are looked at together: what is made of them stays in a core's cache.
constexpr int64_t kPiece = 1 << 18;

// NMS takes the square of its boxes; more than these go in as far as they are needed.
constexpr int64_t kCandidatesAtOnce = 8192;

// The first `most` that are kept. What is kept of some candidates, best first, is how what is kept
// of all begins.
at::Tensor BestKept(const at::Tensor& boxes, const at::Tensor& scores, double iou, int64_t most) {
  for (int64_t part = std::max(kCandidatesAtOnce, 2 * most); part < scores.size(0); part *= 2) {
    const at::Tensor best = BestFirst(scores, part);
    const at::Tensor kept =
        kernels::Nms(boxes.index_select(0, best), scores.index_select(0, best), iou);
    if (kept.size(0) >= most) return best.index_select(0, kept.slice(0, 0, most));
  }
  return kernels::Nms(boxes, scores, iou).slice(0, 0, most);
}

double LogitOf(double score) { return std::log(score / (1 - score)); }

// BestOfRows, where a row is longer. Ranks are whole numbers, so that no two are equal: of the
// larger scores above those of the ones that are equal to the last, of both the earlier ones above.
at::Tensor BestByRank(const at::Tensor& scores, int64_t most) {
  const int64_t all = scores.size(1);
  const at::ScalarType type = all < (1 << 30) ? at::kInt : at::kLong;
  const at::Tensor last = std::get<0>(scores.topk(most, 1)).slice(1, most - 1);
  const at::Tensor place = at::arange(all, scores.options().dtype(type));
  const at::Tensor better = scores.isnan() | (scores > last);
  const at::Tensor rank =
      at::where(better, 2 * all - place, at::where(scores == last, all - place, 0));
  const at::Tensor chosen =
      std::get<0>(std::get<1>(rank.to(type).topk(most, 1)).sort(/*dim=*/1));  // by their place
  const at::Tensor order =
      std::get<1>(scores.gather(1, chosen).sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
  return chosen.gather(1, order);
}

}  // namespace

at::Tensor BestFirst(const at::Tensor& scores, int64_t most) {
  if (most >= scores.size(0)) {
    return std::get<1>(scores.sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  }
  const at::Tensor last = std::get<0>(scores.topk(most))[most - 1];
  const at::Tensor better = (scores.isnan() | (scores > last)).nonzero().squeeze(1);
  const at::Tensor equal = (scores == last).nonzero().squeeze(1);
  const at::Tensor chosen = at::cat({better, equal}).slice(0, 0, most);
  const at::Tensor order = std::get<1>(
      scores.index_select(0, chosen).sort(/*stable=*/true, /*dim=*/0, /*descending=*/true));
  return chosen.index_select(0, order);
}

at::Tensor BestOfRows(const at::Tensor& scores, int64_t most) {
  if (most == scores.size(1)) {
    return std::get<1>(scores.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
  }
  if (!scores.device().is_cpu()) return BestByRank(scores, most);
  std::vector<at::Tensor> best;
  for (int64_t row = 0; row < scores.size(0); ++row) best.push_back(BestFirst(scores[row], most));
  return at::stack(best);
}

BestScores BestAbove(const at::Tensor& logits, double threshold, int64_t most) {
  const double least = LogitOf(threshold);
  std::vector<at::Tensor> scores, indices;
  for (int64_t first = 0; first == 0 || first < logits.size(0); first += kPiece) {
    const at::Tensor piece = logits.slice(0, first, first + kPiece);
    const at::Tensor above = (piece <= least).logical_not().nonzero().squeeze(1);
    const at::Tensor all = piece.index_select(0, above).to(at::kFloat).sigmoid();
    const at::Tensor best = BestFirst(all, most);
    scores.push_back(all.index_select(0, best));
    indices.push_back(above.index_select(0, best) + first);
  }
  // Pieces and what is in them stand by place where scores are equal, and so does what is chosen.
  const at::Tensor all = at::cat(scores), best = BestFirst(all, most);
  return {all.index_select(0, best), at::cat(indices).index_select(0, best)};
}

BestScores BestOfRowsAbove(const at::Tensor& logits, double threshold, int64_t most) {
  if (!logits.device().is_cpu()) {
    const at::Tensor all =
        logits.to(at::kFloat).sigmoid().masked_fill(logits <= LogitOf(threshold), -1);
    const at::Tensor best = BestOfRows(all, most);
    return {all.gather(1, best), best};
  }
  const int64_t rows = logits.size(0);
  const BestScores found = {at::full({rows, most}, -1, logits.options().dtype(at::kFloat)),
                            at::zeros({rows, most}, logits.options().dtype(at::kLong))};
  for (int64_t row = 0; row < rows; ++row) {
    const BestScores best = BestAbove(logits[row], threshold, most);
    const int64_t count = best.scores.size(0);
    found.scores[row].slice(0, 0, count).copy_(best.scores);
    found.indices[row].slice(0, 0, count).copy_(best.indices);
  }
  return found;
}

at::Tensor Clipped(const at::Tensor& boxes, const ImageSize& content) {
  const auto height = static_cast<double>(content.height),
             width = static_cast<double>(content.width);
  const at::Tensor corners = boxes.unflatten(1, {2, 2}).clamp_min(0);  // [M, which, x and y]
  return at::stack({corners.select(2, 0).clamp_max(width), corners.select(2, 1).clamp_max(height)},
                   2)
      .flatten(1);
}

at::Tensor GroupsApart(const at::Tensor& boxes, const at::Tensor& groups,
                       const ImageSize& content) {
  const auto apart = static_cast<double>(std::max(content.height, content.width)) + 1;
  return boxes.to(at::kDouble) + (groups.to(at::kDouble) * apart).unsqueeze(1);
}

void CheckDetectionOptions(const DetectionOptions& options) {
  TORCH_CHECK_VALUE(options.score_threshold >= 0 && options.score_threshold < 1,
                    "a score threshold lies in [0, 1), not at ", options.score_threshold);
  TORCH_CHECK_VALUE(options.nms_iou >= 0 && options.nms_iou <= 1,
                    "an intersection over union lies in [0, 1], not at ", options.nms_iou);
  TORCH_CHECK_VALUE(options.detections_per_image >= 0, "an image has no ",
                    options.detections_per_image, " detections");
}

std::vector<ModelInfo::Output> DetectionOutputs(int64_t most) {
  return {{"boxes", {most, 4}},
          {"scores", {most}},
          {"labels", {most}, ElementType::kInt64},
          {"counts", {}, ElementType::kInt64}};
}

std::vector<at::Tensor> SelectDetections(const Candidates& candidates, const ImageSize& content,
                                         const DetectionOptions& options) {
  const at::Tensor clipped = Clipped(candidates.boxes, content);
  at::Tensor there = candidates.scores >= 0;
  // One that is no number tells that the model is broken; as many would suppress no other.
  const at::Tensor broken =
      (candidates.scores.isnan() | (there & candidates.boxes.isnan().any(1))).nonzero().squeeze(1);
  const at::Tensor sides = clipped.slice(1, 2) - clipped.slice(1, 0, 2);
  there &= (options.conventions == Conventions::kMmdetection ? sides > 0 : sides >= 0).all(1);
  at::Tensor index = there.nonzero().squeeze(1);
  if (broken.size(0) > 0) index = broken.slice(0, 0, 1);
  const at::Tensor boxes = clipped.index_select(0, index);
  const at::Tensor scores = candidates.scores.index_select(0, index);
  const at::Tensor labels = candidates.labels.index_select(0, index);

  const at::Tensor kept = BestKept(GroupsApart(boxes, labels, content), scores.to(at::kDouble),
                                   options.nms_iou, options.detections_per_image);

  const int64_t count = kept.size(0), room = options.detections_per_image;
  const auto padded = [&](const at::Tensor& values) {
    std::vector<int64_t> shape = values.sizes().vec();
    shape[0] = room;
    const at::Tensor all = at::zeros(shape, values.options());
    all.slice(0, 0, count).copy_(values.index_select(0, kept));
    return all;
  };
  return {padded(boxes), padded(scores), padded(labels),
          at::scalar_tensor(count, labels.options())};
}

std::vector<at::Tensor> StackedOutputs(const std::vector<std::vector<at::Tensor>>& images) {
  TORCH_INTERNAL_ASSERT(!images.empty());
  std::vector<at::Tensor> stacked;
  for (size_t output = 0; output < images[0].size(); ++output) {
    std::vector<at::Tensor> all;
    for (const std::vector<at::Tensor>& image : images) all.push_back(image.at(output));
    stacked.push_back(at::stack(all));
  }
  return stacked;
}

}  // namespace fovea::models
