// Detectors of two stages: regions that may hold an object, then of each its class, its box and its
// mask. What Mask R-CNN and Cascade Mask R-CNN are; the trainer takes their parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model_zoo/heads/detections.h"
#include "model_zoo/heads/head.h"
#include "model_zoo/heads/region_proposals.h"
#include "model_zoo/heads/roi_heads.h"
#include "model_zoo/necks/fpn.h"

namespace fovea::models {

struct TwoStageDesign {
  std::string name;  // of the head, for errors
  // Of each box stage: the weights by which its deltas are divided (DecodeBoxes). A stage behind
  // another looks at the boxes that the one before has moved.
  std::vector<std::array<double, 4>> box_weights;
  bool box_for_each_class = true;
};

// Outputs: those of DetectionOutputs, and "masks" FP32 [most, 28, 28]: in each box the probability
// that a place shows the object. Under TORCHVISION class 0 is the background and counts among the
// classes; under MMDETECTION the background is the last logit and does not count.
class TwoStageHead final : public Head {
 public:
  // Throws c10::ValueError in words where it cannot stand there.
  TwoStageHead(const HeadSite& site, TwoStageDesign design);

  std::vector<ModelInfo::Output> outputs() const override;
  int64_t num_classes() const override { return num_classes_; }
  int64_t background_classes() const override { return BackgroundClasses(options_); }
  // How many proposals and detections there are follows from what the images show.
  bool replayable() const override { return false; }
  // Of such a head: what its HeadEntry says.
  static int64_t BackgroundClasses(const DetectionOptions& options) {
    return options.conventions == Conventions::kTorchvision ? 1 : 0;
  }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps,
                                  ForwardContext& context) const override;
  std::optional<ParameterInit> InitOf(const std::string& parameter,
                                      at::IntArrayRef shape) const override;

  // Its parts, for who trains it. The pyramid has a map for each of the strides; the coarsest is
  // for proposals only.
  const Fpn& pyramid() const { return *fpn_; }
  const RegionProposals& proposals() const { return *proposals_; }
  const RoiHeads& roi_heads() const { return *heads_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  const TwoStageDesign& design() const { return design_; }
  const DetectionOptions& options() const { return options_; }

  // `side` x `side` numbers of each channel for each box: FP32 [M, 4] of each image, in pixels of
  // the input. Returns [all of them, channels, side, side], image by image.
  at::Tensor Features(std::span<const at::Tensor> pyramid, const std::vector<at::Tensor>& boxes,
                      int64_t side) const;

 private:
  // Of all images, one behind the other.
  struct BoxOutputs {
    at::Tensor logits;              // [K, scores]: the mean of the stages'
    at::Tensor deltas;              // of the last stage, [K, 4 * boxes]
    std::vector<at::Tensor> boxes;  // that the last stage looked at: of each image, [M, 4]
  };
  // Without boxes when context.ShouldStop() said so.
  BoxOutputs RunBoxStages(std::span<const at::Tensor> pyramid, std::vector<at::Tensor> boxes,
                          std::span<const ImageSize> contents, ForwardContext& context) const;

  Candidates CandidatesOf(const at::Tensor& logits, const at::Tensor& deltas,
                          const at::Tensor& regions, const ImageSize& content) const;
  void AddMasks(std::span<const at::Tensor> pyramid, const std::vector<at::Tensor>& boxes,
                std::vector<std::vector<at::Tensor>>& outputs, ForwardContext& context) const;
  void RecordProposals(const std::vector<at::Tensor>& pyramid,
                       const std::vector<at::Tensor>& proposals, ForwardContext& context) const;

  bool torchvision() const { return options_.conventions == Conventions::kTorchvision; }
  // Classes that are not the background.
  int64_t foreground() const { return num_classes_ - background_classes(); }

  const TwoStageDesign design_;
  const DetectionOptions options_;
  const int64_t num_classes_;
  const ImageSize input_;
  const std::vector<int64_t> strides_;
  const std::shared_ptr<Fpn> fpn_;
  const std::shared_ptr<RegionProposals> proposals_;
  const std::shared_ptr<RoiHeads> heads_;
};

}  // namespace fovea::models
