#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/vision/rp_cpe/implementations.h"

namespace fovea::kernels {

at::Tensor RpCpeReference(const RpCpeInputs& in) {
  const at::ScalarType type = in.x.scalar_type();
  const at::ScalarType accumulate = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor x = in.x.to(accumulate);
  at::Tensor sum = x;
  for (int64_t branch = 0; branch < in.weights.size(0); ++branch) {
    const at::Tensor weight = in.weights.select(0, branch).unsqueeze(1).to(accumulate);
    const at::Tensor bias = in.biases.select(0, branch).to(accumulate);
    sum = sum + at::conv2d(x, weight, bias, /*stride=*/1, /*padding=*/1, /*dilation=*/1,
                           /*groups=*/x.size(1));
  }
  return sum.to(type);
}

}  // namespace fovea::kernels
