// What a one-stage detector is trained with.
//   RetinaNet: Lin et al., ICCV 2017, section 4.1; the boxes' loss Rezatofighi et al., CVPR 2019,
//   as torchvision 0.26's retinanet_resnet50_fpn_v2 has it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model_zoo/heads/anchor_detector.h"
#include "model_zoo/training/data/loading/sample_loader.h"
#include "model_zoo/training/losses/focal_loss.h"
#include "model_zoo/training/losses/matching.h"

namespace fovea::models::training {

enum class BoxLoss {
  kGiou,      // of the decoded boxes
  kSmoothL1,  // of the deltas, quadratic below 1
};

struct AnchorLossOptions {
  MatchOptions match = {.foreground_iou = 0.5, .background_iou = 0.4};
  FocalOptions focal;
  BoxLoss box_loss = BoxLoss::kGiou;
};

// Each the sum over an image, divided by its foreground anchors (at least 1), and the mean over the
// images.
struct AnchorLoss {
  at::Tensor classification;
  at::Tensor boxes;
};

// images: what each row of `outputs` shows, labelled as its classes are. Anchors that lie in a
// crowd and are no object's are not learned from.
AnchorLoss LossOfAnchors(const AnchorOutputs& outputs, const std::vector<ImageTruth>& images,
                         const AnchorLossOptions& options);

}  // namespace fovea::models::training
