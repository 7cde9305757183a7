// Cascade Mask R-CNN: three box stages, each of which looks at the boxes that the one before has
// moved, and so can ask for a better fit; then the mask of each box.
//   Cai and Vasconcelos, CVPR 2018 and TPAMI 2019; used by Static Key Attention in Vision
//   (section 5.2). MMDETECTION: cascade_mask_rcnn_r50_fpn of mmdetection 3. A stage has one box for
//   all classes; scores are the softmax of the mean of the three stages' logits; boxes are the
//   last stage's; each stage has a mask head of its own, and a mask is the mean of their three
//   probabilities. Names: torchvision's for Mask R-CNN, with the stage's number behind the part's
//   name. TORCHVISION is refused: torchvision has no such detector.
#include <c10/util/Exception.h>

#include <memory>

#include "model_zoo/heads/register.h"
#include "model_zoo/heads/two_stage.h"

namespace fovea::models {
namespace {

// Deltas get smaller from stage to stage: these are one over mmdetection's deviations.
TwoStageDesign Design() {
  return {.name = "cascade_mask_rcnn",
          .box_weights = {{10, 10, 5, 5},
                          {20, 20, 10, 10},
                          {1 / 0.033, 1 / 0.033, 1 / 0.067, 1 / 0.067}},
          .box_for_each_class = false};
}

}  // namespace

HeadEntry CascadeMaskRcnnEntry() {
  return {"cascade_mask_rcnn", "boxes refined in three stages, then masks, on a feature pyramid",
          Task::kDetection,
          [](const HeadSite& site) {
            TORCH_CHECK_VALUE(site.detection.conventions == Conventions::kMmdetection,
                              "the head 'cascade_mask_rcnn' is mmdetection's, and torchvision has "
                              "none: its description says conventions: MMDETECTION");
            return std::make_shared<TwoStageHead>(site, Design());
          },
          TwoStageHead::BackgroundClasses};
}

}  // namespace fovea::models
