#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"

namespace fovea::kernels {

at::Tensor KnnAttentionReference(const KnnAttentionInputs& in) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  const at::ScalarType accumulate = LogitType(in.query);

  at::Tensor logits = at::matmul(in.query.to(accumulate), in.key.to(accumulate).mT()) * in.scale;
  if (in.bias) logits = logits + in.bias->to(accumulate);

  // Stable, so that ties go to the lower index; descending puts NaN first, so that it is selected.
  const at::Tensor order = at::argsort(logits.detach(), /*stable=*/true, -1, /*descending=*/true);
  const at::Tensor mask =
      at::full_like(logits, kMasked).scatter(-1, order.narrow(-1, 0, in.topk), /*value=*/0.0);
  const at::Tensor kept = logits + mask;

  return at::matmul(SoftmaxOrZero(kept), in.value.to(accumulate)).to(in.query.scalar_type());
}

}  // namespace fovea::kernels
