#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "kernels/attention/knn_attention/implementations.h"

namespace fovea::kernels {

at::Tensor KnnAttentionReference(const KnnAttentionInputs& in) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  const at::ScalarType type = in.query.scalar_type();
  const at::ScalarType accumulate = type == at::kDouble ? at::kDouble : at::kFloat;

  at::Tensor logits = at::matmul(in.query.to(accumulate), in.key.to(accumulate).mT()) * in.scale;
  if (in.bias) logits = logits + in.bias->to(accumulate);

  // Stable, so that ties go to the lower index; descending puts NaN first, so that it is selected.
  const at::Tensor order = at::argsort(logits.detach(), /*stable=*/true, -1, /*descending=*/true);
  const at::Tensor mask =
      at::full_like(logits, kMasked).scatter(-1, order.narrow(-1, 0, in.topk), /*value=*/0.0);
  const at::Tensor kept = logits + mask;

  // Softmax over nothing is 0/0. Such a row is zero, and so are its gradients: hence two fills.
  const at::Tensor nothing = kept.detach().amax(-1, /*keepdim=*/true).eq(kMasked);
  const at::Tensor weights =
      at::softmax(kept.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0);
  return at::matmul(weights, in.value.to(accumulate)).to(type);
}

}  // namespace fovea::kernels
