// What key-only attention should have computed, in fp64.
#pragma once
#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/kernels/rounding.h"

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

// Written apart from the operator's reference, which it also checks. The context is kept in fp32.
inline Rounded ExpectedOf(const KeyOnlyCase& c) {
  Precision p = PrecisionOf(c.key.scalar_type());
  p.type = p.sums;  // of weights; BoundOf rounds the output
  const Rounded key = Exact(c.key), saliency = Exact(c.saliency.unsqueeze(-1));
  const Rounded logits = Scaled(Product(key, saliency, p.sums), c.ScaleOrDefault(), p.sums)
                             .Map([](const at::Tensor& t) { return t.transpose(-2, -1); });
  const Rounded context = SoftmaxAverage(logits, key, p);  // [B, H, 1, D]
  return Times(context, Exact(c.value), p.sums);
}

}  // namespace fovea::kernels
