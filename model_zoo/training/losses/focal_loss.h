// The focal loss: cross-entropy that well classified examples hardly count in.
//   Lin et al., ICCV 2017, equation 5.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::models::training {

struct FocalOptions {
  double alpha = 0.25;  // the weight of positives; negatives have 1 - alpha
  double gamma = 2;     // larger: easy examples count less
};

// logits and targets (0 or 1): of one shape, floating point; returns one loss each.
at::Tensor SigmoidFocalLoss(const at::Tensor& logits, const at::Tensor& targets,
                            const FocalOptions& options = {});

}  // namespace fovea::models::training
