// What every detector ends with: selects what it reports from its candidate boxes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea::models {

// Boxes with a class and a score, of one image.
struct Candidates {
  at::Tensor boxes;   // FP32 [M, 4] as x1, y1, x2, y2, in pixels of the model's input
  at::Tensor scores;  // FP32 [M]; below 0: there is none
  at::Tensor labels;  // INT64 [M]
};

// The places of the `most` largest of these scores [M], FP32, or of all: INT64, the largest first,
// equal ones by their place, what is no number before all. torch's topk takes any of equal ones.
// `most` is at least 1.
at::Tensor BestFirst(const at::Tensor& scores, int64_t most);

// BestFirst of each row of these scores [N, M], FP32, of which M is at least `most`: INT64 [N,
// most]. Anywhere but on the CPU it does the same work whatever the scores are, and waits for
// nothing.
at::Tensor BestOfRows(const at::Tensor& scores, int64_t most);

struct BestScores {
  at::Tensor scores;   // FP32 [K], K at most `most`
  at::Tensor indices;  // INT64 [K]: of the logits
};

// Of the sigmoids of `logits` [M] above `threshold` the `most` best, as BestFirst has them. What is
// no number passes the threshold too: who finds it among the scores knows that the model is broken.
// Looks at a piece of the logits at a time: beside them it holds a few megabytes, however many
// pass.
BestScores BestAbove(const at::Tensor& logits, double threshold, int64_t most);

// Boxes FP32 [M, 4], cut off at the edges of `content`, the part of the input that shows the
// picture.
at::Tensor Clipped(const at::Tensor& boxes, const ImageSize& content);

// BestAbove of each row of `logits` [N, M], of which M is at least `most`: both [N, most], and
// where there are fewer above the threshold scores of -1. Waits as BestOfRows does.
BestScores BestOfRowsAbove(const at::Tensor& logits, double threshold, int64_t most);

// Clipped boxes, each group of them (INT64 [M]: a class, or a level of a pyramid) in a place of its
// own, where it overlaps no other: NMS of all groups at once. In fp64: as far out an fp32 pixel has
// no more than seven bits behind the point.
at::Tensor GroupsApart(const at::Tensor& boxes, const at::Tensor& groups, const ImageSize& content);

// Throws c10::ValueError in words where they do not lie as DetectionOptions says.
void CheckDetectionOptions(const DetectionOptions& options);

// The outputs of a detector for one image: at most `most` detections by descending score, and how
// many there are: "boxes" FP32 [most, 4], "scores" FP32 [most], "labels" INT64 [most], "counts"
// INT64 []. Zeros behind the last.
std::vector<ModelInfo::Output> DetectionOutputs(int64_t most);

// Clips the boxes to `content`; of those of one class that overlap by more than options.nms_iou
// keeps the best; of these the best `options.detections_per_image`.
//   MMDETECTION drops boxes without area, TORCHVISION does not. (mmdetection's RetinaNet does, its
//   detectors of two stages report them: to nobody's use, so these drop them here, too.) Both drop
//   boxes whose ends are reversed, which no head makes.
// Negative scores are none. Of scores and boxes that are no numbers it reports the first one and
// nothing else, which tells that the model is broken. Returns what DetectionOutputs says.
std::vector<at::Tensor> SelectDetections(const Candidates& candidates, const ImageSize& content,
                                         const DetectionOptions& options);

// Each output of all images as one tensor [images, ...]. There is at least one image.
std::vector<at::Tensor> StackedOutputs(const std::vector<std::vector<at::Tensor>>& images);

}  // namespace fovea::models
