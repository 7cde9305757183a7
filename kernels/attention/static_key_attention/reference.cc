#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/attention/shared/token_sets.h"
#include "kernels/attention/static_key_attention/implementations.h"

namespace fovea::kernels {

at::Tensor StaticKeyAttentionReference(const StaticKeyAttentionInputs& in) {
  const at::ScalarType accumulate = LogitType(in.query);
  const at::Tensor logits =
      at::matmul(in.query.to(accumulate), in.static_key.to(accumulate).mT()) * in.scale;
  return at::matmul(ApplyActivation(in.activation, logits), in.value.to(accumulate))
      .to(in.query.scalar_type());
}

}  // namespace fovea::kernels
