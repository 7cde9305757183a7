// What a two-stage detector is trained with: proposals, then the classes, boxes and masks of
// regions.
//   Ren et al., NIPS 2015, section 3.1.2 and 3.1.3; Girshick, ICCV 2015, section 2.3; He et al.,
//   ICCV 2017, section 3. Numbers, where the papers differ, as torchvision 0.26's.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model_zoo/heads/anchor_detector.h"
#include "model_zoo/training/data/loading/sample_loader.h"
#include "model_zoo/training/data/random.h"
#include "model_zoo/training/losses/matching.h"

namespace fovea::models::training {

struct RegionOptions {
  MatchOptions proposal_match = {.foreground_iou = 0.7, .background_iou = 0.3};
  MatchSamplingOptions proposal_sample = {.count = 256, .foreground_share = 0.5};
  MatchOptions region_match = {
      .foreground_iou = 0.5, .background_iou = 0.5, .best_of_each_object = false};
  MatchSamplingOptions region_sample = {.count = 512, .foreground_share = 0.25};
};

// RegionFeatures (model_zoo/heads/region_features.h), to be differentiated: as matrix products for
// all regions of an image together, where the operator's gradient goes through each of them by
// itself and keeps a map for each. FP32.
at::Tensor LearnableRegionFeatures(std::span<const at::Tensor> pyramid,
                                   std::span<const int64_t> strides,
                                   const std::vector<at::Tensor>& boxes, int64_t side,
                                   Conventions conventions);

struct ProposalLoss {
  at::Tensor objectness;  // the mean binary cross-entropy of what was sampled
  at::Tensor boxes;       // smooth L1 of the foreground's deltas, divided by as many
};

// outputs: with one logit an anchor. images: what each row of it shows.
ProposalLoss LossOfProposals(const AnchorOutputs& outputs, const std::vector<ImageTruth>& images,
                             const RegionOptions& options, Random& random);

// The regions of one image that are learned from, foreground first.
struct RegionSample {
  at::Tensor boxes;        // FP32 [M, 4]
  at::Tensor objects;      // INT64 [foreground]: which object of the image each shows
  int64_t foreground = 0;  // the first ones
};

// Of the proposals [K, 4], the image's objects among them.
RegionSample SampleRegions(const at::Tensor& proposals, const ImageTruth& image,
                           const RegionOptions& options, Random& random);

struct RegionLoss {
  at::Tensor classification;  // the mean cross-entropy
  at::Tensor boxes;           // smooth L1 of the foreground's deltas, divided by all regions
};

// How a head numbers and weighs what it says of a region.
struct RegionCoding {
  int64_t background = 0;                          // the logit that says: no object
  std::array<double, 4> weights = {10, 10, 5, 5};  // of the deltas
};

// logits [K, scores] and deltas [K, 4 * boxes] of all regions, image by image; the truth's labels
// are places in both.
RegionLoss LossOfRegions(const at::Tensor& logits, const at::Tensor& deltas,
                         const std::vector<RegionSample>& regions,
                         const std::vector<ImageTruth>& images, const RegionCoding& coding);

// How much of each place in boxes FP32 [M, 4] shows the object that the box is for: objects INT64
// [M], places in the image's. FP32 [M, height, width].
at::Tensor MasksWithin(const ImageTruth& image, const at::Tensor& objects, const at::Tensor& boxes,
                       int64_t height, int64_t width);

// The true classes of the foreground of all images, image by image: INT64 [K].
at::Tensor ForegroundLabels(const std::vector<RegionSample>& regions,
                            const std::vector<ImageTruth>& images);

// logits [K, side, side] of the foreground of all images, image by image, for ForegroundLabels. The
// mean binary cross-entropy against the part of the object's mask that the region shows; 0 where
// there is no region.
at::Tensor LossOfMasks(const at::Tensor& logits, const std::vector<RegionSample>& regions,
                       const std::vector<ImageTruth>& images);

}  // namespace fovea::models::training
