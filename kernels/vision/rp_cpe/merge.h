// RP-CPE's branches merged into one, for inference.
//   LinGlo, section 3.2, which re-parameterises as RepVGG (Ding et al., CVPR 2021) does.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace fovea::kernels {

// What RpCpe takes.
struct RpCpeWeights {
  at::Tensor weights;  // [branches, C, 3, 3]
  at::Tensor biases;   // [branches, C]
};

// A batch norm behind each branch's convolution, in evaluation mode; [branches, C] each.
struct RpCpeNorms {
  at::Tensor gamma;
  at::Tensor beta;
  at::Tensor running_mean;
  at::Tensor running_variance;
  double eps = 1e-5;  // added to the variance
};

// One branch that equals the sum of all, [1, C, 3, 3] and [1, C], with `norms` folded into it. The
// skip connection is not in it: RpCpe adds that itself.
//
// Computed in fp64 and returned in the branches' own type. Merge fp32 weights and leave the result
// so, even for a bf16 map: RpCpe takes it, and the sum of four keeps its digits.
// A plain function of ATen, differentiable; no dispatch.
// Throws c10::Error naming the argument and its value where shapes do not fit.
RpCpeWeights MergeRpCpe(const RpCpeWeights& branches,
                        const std::optional<RpCpeNorms>& norms = std::nullopt);

}  // namespace fovea::kernels
