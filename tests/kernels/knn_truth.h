// Which keys k-NN attention should have taken, in fp64.
#pragma once
#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace fovea::kernels {

struct KnnArguments {
  at::Tensor query, key, value;
  int64_t topk;
  std::optional<double> scale = std::nullopt;
  std::optional<at::Tensor> bias = std::nullopt;

  double ScaleOrDefault() const {
    return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(3))));
  }
};

// Query, key and value as a model has them: views of one QKV tensor.
inline KnnArguments RandomCase(int64_t batch, int64_t heads, int64_t tokens, int64_t dim,
                               int64_t topk, at::ScalarType type) {
  const at::Tensor qkv = at::randn({batch, tokens, 3, heads, dim}).to(type);
  const std::vector<at::Tensor> parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);
  return {parts[0], parts[1], parts[2], topk};
}

inline at::Tensor MaskedSoftmax(const at::Tensor& logits, const at::Tensor& selected) {
  return at::softmax(
      logits.masked_fill(selected.logical_not(), -std::numeric_limits<double>::infinity()), -1);
}

// bool [B, H, Nq, Nk]. Written apart from the operator's reference, which it also checks. Finite
// logits only.
inline at::Tensor SelectedBy(const KnnArguments& c) {
  at::Tensor logits = at::matmul(c.query.to(at::kDouble), c.key.to(at::kDouble).transpose(-2, -1)) *
                      c.ScaleOrDefault();
  if (c.bias) logits = logits + c.bias->to(at::kDouble);
  const at::Tensor order = at::argsort(logits, /*stable=*/true, -1, /*descending=*/true);
  return at::zeros_like(logits, at::kBool).scatter_(-1, order.narrow(-1, 0, c.topk), true);
}

}  // namespace fovea::kernels
