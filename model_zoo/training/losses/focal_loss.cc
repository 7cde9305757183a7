#include "model_zoo/training/losses/focal_loss.h"

#include <ATen/ATen.h>

namespace fovea::models::training {

at::Tensor SigmoidFocalLoss(const at::Tensor& logits, const at::Tensor& targets,
                            const FocalOptions& options) {
  const at::Tensor entropy =
      at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None);
  // How far the probability is from the target.
  const at::Tensor miss = (logits.sigmoid() - targets).abs();
  const at::Tensor weight = (1 - options.alpha) + targets * (2 * options.alpha - 1);
  return weight * miss.pow(options.gamma) * entropy;
}

}  // namespace fovea::models::training
