// What k-NN attention should have computed, in fp64, and how far off plain PyTorch is.
#pragma once
#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace fovea::kernels {

struct KnnCase {
  at::Tensor query, key, value;
  int64_t topk;
  std::optional<double> scale = std::nullopt;
  std::optional<at::Tensor> bias = std::nullopt;

  double ScaleOrDefault() const {
    return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(3))));
  }
};

// Query, key and value as a model has them: views of one QKV tensor.
inline KnnCase RandomCase(int64_t batch, int64_t heads, int64_t tokens, int64_t dim, int64_t topk,
                          at::ScalarType type) {
  const at::Tensor qkv = at::randn({batch, tokens, 3, heads, dim}).to(type);
  const std::vector<at::Tensor> parts = qkv.permute({2, 0, 3, 1, 4}).unbind(0);
  return {parts[0], parts[1], parts[2], topk};
}

struct KnnTruth {
  at::Tensor selected;   // bool [B, H, Nq, Nk]
  at::Tensor output;     // fp64
  at::Tensor ambiguous;  // bool [B, H, Nq]: either of two keys may be taken
};

inline at::Tensor MaskedSoftmax(const at::Tensor& logits, const at::Tensor& selected) {
  return at::softmax(
      logits.masked_fill(selected.logical_not(), -std::numeric_limits<double>::infinity()), -1);
}

// Written apart from the operator's reference, which it also checks. Finite logits only.
inline KnnTruth TruthOf(const KnnCase& c) {
  at::Tensor logits = at::matmul(c.query.to(at::kDouble), c.key.to(at::kDouble).transpose(-2, -1)) *
                      c.ScaleOrDefault();
  if (c.bias) logits = logits + c.bias->to(at::kDouble);
  const auto [sorted, order] = at::sort(logits, /*stable=*/true, -1, /*descending=*/true);
  at::Tensor selected = at::zeros_like(logits, at::kBool);
  selected.scatter_(-1, order.narrow(-1, 0, c.topk), true);
  KnnTruth truth;
  truth.selected = selected;
  truth.output = at::matmul(MaskedSoftmax(logits, selected), c.value.to(at::kDouble));
  if (c.topk < logits.size(-1)) {
    // Eight units in the last place of the row's largest logit: what rounding a dot product costs
    // depends on its terms, not on its sum.
    const at::Tensor tolerance = logits.abs().amax(-1) * (8.0 * 0x1p-23);
    truth.ambiguous = (sorted.select(-1, c.topk - 1) - sorted.select(-1, c.topk)).lt(tolerance);
  } else {
    truth.ambiguous = at::zeros_like(logits.select(-1, 0), at::kBool);
  }
  return truth;
}

// Plain PyTorch in the inputs' own type, told which keys to take.
inline at::Tensor PlainForm(const KnnCase& c, const at::Tensor& selected) {
  at::Tensor logits = at::matmul(c.query, c.key.transpose(-2, -1)) * c.ScaleOrDefault();
  if (c.bias) logits = logits + c.bias->to(logits.scalar_type());
  return at::matmul(MaskedSoftmax(logits, selected), c.value);
}

}  // namespace fovea::kernels
