#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/attention/key_only_attention/implementations.h"

namespace fovea::kernels {

at::Tensor KeyOnlyAttentionReference(const KeyOnlyAttentionInputs& in) {
  const at::ScalarType type = in.key.scalar_type();
  const at::ScalarType accumulate = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor key = in.key.to(accumulate);

  const at::Tensor saliency = in.saliency.to(accumulate).unsqueeze(-1);             // [H, D, 1]
  const at::Tensor weights = at::softmax(at::matmul(key, saliency) * in.scale, 2);  // [B, H, N, 1]
  const at::Tensor context = at::matmul(weights.mT(), key);                         // [B, H, 1, D]
  return (context * in.value.to(accumulate)).to(type);
}

}  // namespace fovea::kernels
