#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"

namespace fovea::kernels {

at::Tensor DenseAttentionReference(const DenseAttentionInputs& in) {
  const at::ScalarType accumulate = LogitType(in.query);
  at::Tensor logits = at::matmul(in.query.to(accumulate), in.key.to(accumulate).mT()) * in.scale;
  if (in.bias) logits = logits + in.bias->to(accumulate);
  return at::matmul(SoftmaxOrZero(logits), in.value.to(accumulate)).to(in.query.scalar_type());
}

}  // namespace fovea::kernels
