// What key-only attention should have computed, in fp64, and how far off plain PyTorch is.
#pragma once
#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

namespace fovea::kernels {

struct KeyOnlyCase {
  at::Tensor key, value, saliency;
  std::optional<double> scale = std::nullopt;

  double ScaleOrDefault() const {
    return scale.value_or(1.0 / std::sqrt(static_cast<double>(key.size(3))));
  }
};

// Key and value as a model has them: views of one KV tensor.
inline KeyOnlyCase RandomKeyOnlyCase(int64_t batch, int64_t heads, int64_t tokens, int64_t dim,
                                     at::ScalarType type) {
  const at::Tensor kv = at::randn({batch, tokens, 2, heads, dim}).to(type);
  const std::vector<at::Tensor> parts = kv.permute({2, 0, 3, 1, 4}).unbind(0);
  return {parts[0], parts[1], at::randn({heads, dim}).to(type)};
}

// Written apart from the operator's reference, which it also checks: token by token.
inline at::Tensor TruthOf(const KeyOnlyCase& c) {
  const at::Tensor key = c.key.to(at::kDouble);
  const at::Tensor saliency = c.saliency.to(at::kDouble).unsqueeze(0).unsqueeze(2);
  const at::Tensor logits = (key * saliency).sum(-1) * c.ScaleOrDefault();  // [B, H, N]
  const at::Tensor terms = (logits - logits.amax(-1, /*keepdim=*/true)).exp();
  const at::Tensor weights = terms / terms.sum(-1, /*keepdim=*/true);
  const at::Tensor context = (weights.unsqueeze(-1) * key).sum(2, /*keepdim=*/true);
  return context * c.value.to(at::kDouble);
}

// Plain PyTorch in the inputs' own type.
inline at::Tensor PlainForm(const KeyOnlyCase& c) {
  const at::Tensor logits = at::matmul(c.key, c.saliency.unsqueeze(-1)) * c.ScaleOrDefault();
  return at::matmul(at::softmax(logits, 2).transpose(-2, -1), c.key) * c.value;
}

}  // namespace fovea::kernels
