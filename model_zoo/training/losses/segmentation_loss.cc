#include "model_zoo/training/losses/segmentation_loss.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace fovea::models::training {

at::Tensor SegmentationLoss(const at::Tensor& logits, const at::Tensor& classes) {
  const at::Tensor upsampled = at::upsample_bilinear2d(
      logits.to(at::kFloat), {classes.size(1), classes.size(2)}, /*align_corners=*/false);
  const int64_t known = classes.ne(TrainingBatch::kIgnored).sum().item<int64_t>();
  const at::Tensor sum = at::cross_entropy_loss(upsampled, classes, {}, at::Reduction::Sum,
                                                /*ignore_index=*/TrainingBatch::kIgnored);
  return sum / static_cast<double>(std::max<int64_t>(1, known));
}

}  // namespace fovea::models::training
