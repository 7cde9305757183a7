#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <limits>

#include "kernels/attention/criss_cross_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"

namespace fovea::kernels {

at::Tensor CrissCrossAttentionReference(const CrissCrossAttentionInputs& in) {
  const at::ScalarType accumulate = LogitType(in.query);
  const at::Tensor query = in.query.to(accumulate), key = in.key.to(accumulate),
                   value = in.value.to(accumulate);
  const int64_t height = query.size(2), width = query.size(3);

  const at::Tensor row_logits = at::matmul(query, key.mT()) * in.scale;  // [B, heads, H, W, W]
  const auto by_column = [](const at::Tensor& map) { return map.transpose(2, 3); };
  // [B, heads, H, W, H]; a position finds itself among its row's keys.
  const at::Tensor itself = at::eye(height, query.options().dtype(at::kBool)).unsqueeze(1);
  const at::Tensor column_logits =
      by_column(at::matmul(by_column(query), by_column(key).mT()) * in.scale)
          .masked_fill(itself, -std::numeric_limits<double>::infinity());

  const at::Tensor weights = SoftmaxOrZero(at::cat({row_logits, column_logits}, -1));
  const at::Tensor from_row = at::matmul(weights.narrow(-1, 0, width), value);
  const at::Tensor from_column =
      by_column(at::matmul(by_column(weights.narrow(-1, width, height)), by_column(value)));
  return (from_row + from_column).to(in.query.scalar_type());
}

}  // namespace fovea::kernels
