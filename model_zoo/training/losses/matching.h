// Which object each anchor or region answers for, and which of them are learned from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model_zoo/training/data/loading/sample_loader.h"
#include "model_zoo/training/data/random.h"

namespace fovea::models::training {

struct MatchOptions {
  double foreground_iou = 0.5;  // from there on it is the object's
  double background_iou = 0.4;  // below, it shows none
  // An object's nearest anchors are its own, however far they are from it: no object goes
  // unlearned.
  bool best_of_each_object = true;
};

inline constexpr int64_t kBackground = -1;
inline constexpr int64_t kBetween = -2;  // neither: not learned from

// iou: FP32 [objects, M], there may be none. Returns INT64 [M]: an object's number, kBackground or
// kBetween. Ren et al., NIPS 2015, section 3.1.2. An object's nearest anchors, all of those with
// the largest IoU above 0, go to whichever object each of them overlaps most, as torchvision's do.
at::Tensor Match(const at::Tensor& iou, const MatchOptions& options);

// Match of `boxes` [M, 4] to the image's objects. Background of which half or more lies in a crowd
// is kBetween.
at::Tensor MatchObjects(const at::Tensor& boxes, const ImageTruth& image,
                        const MatchOptions& options);

struct MatchSamplingOptions {
  int64_t count = 256;            // in an image at most
  double foreground_share = 0.5;  // at most; background fills up what is left
};

// Of what was matched [M]: INT64 indices of those that are learned from, foreground first, each
// kind in random order.
struct MatchSample {
  at::Tensor foreground;
  at::Tensor background;
};
MatchSample SampleMatches(const at::Tensor& matched, const MatchSamplingOptions& options,
                          Random& random);

}  // namespace fovea::models::training
