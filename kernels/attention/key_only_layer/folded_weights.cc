#include "kernels/attention/key_only_layer/folded_weights.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace fovea::kernels {

std::vector<at::Tensor> FoldedKeyOnlyWeights::List() const {
  return {gate, key_weight, key_bias, value, product, direct};
}

FoldedKeyOnlyWeights FoldedKeyOnlyWeights::FromList(at::TensorList list) {
  return {list[0], list[1], list[2], list[3], list[4], list[5]};
}

FoldedKeyOnlyWeights Fold(const KeyOnlyWeights& w) {
  const int64_t heads = w.saliency.size(0);
  const int64_t dim = w.saliency.size(1);
  const int64_t channels = heads * dim;
  const auto fp32 = [](const at::Tensor& t) { return t.to(at::kFloat); };
  // A bias as a row.
  const auto row = [&](const std::optional<at::Tensor>& bias) {
    return bias ? fp32(*bias).unsqueeze(0)
                : at::zeros({1, channels}, w.key_weight.options().dtype(at::kFloat));
  };
  const at::Tensor key_weight = fp32(w.key_weight);
  const at::Tensor u2 = fp32(w.u2_weight).t();
  const at::Tensor key = at::cat({key_weight.t(), row(w.key_bias) + row(w.u1_bias)});

  FoldedKeyOnlyWeights folded;
  folded.key_weight = key_weight.reshape({heads, dim, channels});
  folded.key_bias = row(w.key_bias).reshape({heads, dim, 1});
  folded.gate = at::matmul(fp32(w.saliency).unsqueeze(1), folded.key_weight).squeeze(1);
  at::Tensor direct = at::matmul(key, u2);
  direct.narrow(0, channels, 1).add_(row(w.u2_bias));
  const at::ScalarType type = w.key_weight.scalar_type();
  folded.value = at::cat({fp32(w.value_weight).t(), row(w.value_bias)}).to(type);
  folded.product = at::matmul(fp32(w.u1_weight).t(), u2).to(type);
  folded.direct = direct.to(type);
  return folded;
}

}  // namespace fovea::kernels
