// What a segmenter is trained with.
#pragma once

#include <ATen/core/Tensor.h>

#include "model_zoo/training/data/loading/sample_loader.h"

namespace fovea::models::training {

// logits [N, classes, h, w] of any size; classes: INT64 [N, H, W]. The mean cross-entropy of the
// pixels that are not TrainingBatch::kIgnored, the logits brought to their size bilinearly; 0 where
// there is none. Long et al., CVPR 2015, section 4.
at::Tensor SegmentationLoss(const at::Tensor& logits, const at::Tensor& classes);

}  // namespace fovea::models::training
