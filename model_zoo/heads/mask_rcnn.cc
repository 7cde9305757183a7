// Mask R-CNN: regions that may hold an object, then of each its class, its box and its mask.
//   He et al., ICCV 2017; Ren et al., NIPS 2015. TORCHVISION: maskrcnn_resnet50_fpn_v2 of
//   torchvision 0.26 (mask_rcnn.py, roi_heads.py), whose names these are: batch norms, four
//   convolutions before the boxes' linear layer, class 0 is the background and counts.
//   MMDETECTION: mask_rcnn_r50_fpn of mmdetection 3: no norms, two linear layers ("fc6", "fc7" as
//   in torchvision's first version), the background is the last class and does not count.
#include <memory>

#include "model_zoo/heads/register.h"
#include "model_zoo/heads/two_stage.h"

namespace fovea::models {

HeadEntry MaskRcnnEntry() {
  return {"mask_rcnn", "boxes, classes and masks in two stages, on a feature pyramid",
          Task::kDetection,
          [](const HeadSite& site) {
            return std::make_shared<TwoStageHead>(
                site, TwoStageDesign{.name = "mask_rcnn", .box_weights = {{10, 10, 5, 5}}});
          },
          TwoStageHead::BackgroundClasses};
}

}  // namespace fovea::models
