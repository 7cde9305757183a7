// A detector that tests need for what it finds, not for how well.
#pragma once

#include "model_zoo/model_description.h"

namespace fovea::models {

// Of boxes and masks of three classes in 64 pixels.
inline ModelDescription SmallMaskRcnn() {
  return {.name = "masks",
          .backbone = "linglo_b0",
          .task = Task::kDetection,
          .head = "mask_rcnn",
          .num_classes = 3,
          .image_height = 64,
          .image_width = 64,
          .random_weights_seed = 1};
}

}  // namespace fovea::models
