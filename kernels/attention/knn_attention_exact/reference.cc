#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "kernels/attention/knn_attention_exact/implementations.h"
#include "kernels/attention/shared/token_sets.h"

namespace fovea::kernels {

at::Tensor KnnAttentionExactReference(const KnnAttentionExactInputs& in) {
  constexpr double kMasked = -std::numeric_limits<double>::infinity();
  const at::ScalarType accumulate = LogitType(in.query);
  const at::Tensor key = in.key.to(accumulate);
  const at::Tensor products = at::matmul(in.query.to(accumulate), key.mT());
  at::Tensor logits = products * in.scale;
  at::Tensor proximity = (products - key.square().sum(-1).unsqueeze(-2) / 2).detach();
  if (in.bias) {
    const at::Tensor no_neighbour = in.bias->isfinite().logical_not();
    logits = logits + in.bias->to(accumulate);
    proximity = proximity.masked_fill(no_neighbour, kMasked);
  }
  logits = logits.masked_fill(proximity.eq(kMasked), kMasked)
               .masked_fill(proximity.isnan().logical_or(proximity.eq(-kMasked)),
                            std::numeric_limits<double>::quiet_NaN());
  // Stable, so that ties go to the lower index; descending puts NaN first, so that it is selected.
  const at::Tensor order = at::argsort(proximity, /*stable=*/true, -1, /*descending=*/true);
  const at::Tensor mask =
      at::full_like(proximity, kMasked).scatter(-1, order.narrow(-1, 0, in.topk), /*value=*/0.0);
  return at::matmul(SoftmaxOrZero(logits + mask), in.value.to(accumulate))
      .to(in.query.scalar_type());
}

}  // namespace fovea::kernels
