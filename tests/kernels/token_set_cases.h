// Cases of the operators on token sets: dense, exact k-NN, static-key and convolutional static-key
// attention.
#pragma once
#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/conv_static_key_attention/op.h"
#include "kernels/attention/dense_attention/op.h"
#include "kernels/attention/knn_attention_exact/op.h"
#include "kernels/attention/static_key_attention/op.h"
#include "tests/kernels/attention_case.h"

namespace fovea::kernels {

using Scale = std::optional<double>;

inline double ScaleOf(const Scale& scale, const at::Tensor& query) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

inline std::optional<at::Tensor> IfDefined(const at::Tensor& t) {
  return t.defined() ? std::optional(t) : std::nullopt;
}

inline at::Tensor BiasedLogits(const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& bias, const Scale& scale) {
  at::Tensor logits = at::matmul(query, key.transpose(-2, -1)) * ScaleOf(scale, query);
  if (bias.defined()) logits = logits + bias.to(logits.scalar_type());
  return logits;
}

// `qkv` as RandomTokens makes them.
inline AttentionCase DenseCase(const Tensors& qkv, const at::Tensor& bias = {},
                               const Scale& scale = std::nullopt) {
  return {.name = "dense_attention",
          .inputs = {qkv[0], qkv[1], qkv[2], bias},
          .run =
              [=](const Tensors& t) {
                return DenseAttention(t[0], t[1], t[2], scale, IfDefined(t[3]));
              },
          .definition =
              [=](const Tensors& t) {
                return at::matmul(SoftmaxOverFinite(BiasedLogits(t[0], t[1], t[3], scale)), t[2]);
              }};
}

// -|query - key|, the published measure, [B, H, Nq, Nk]; -inf for keys that are no neighbours.
inline at::Tensor Nearness(const Tensors& wide) {
  const at::Tensor nearness = -at::cdist(wide[0], wide[1], 2.0, /*compute_mode=*/2);
  if (!wide[3].defined()) return nearness;
  return nearness.masked_fill(wide[3].isfinite().logical_not(), kMasked);
}

// Rows of which the topk-th and the next key lie at distances that rounding may exchange.
inline at::Tensor RowsOfTwins(const Tensors& wide, int64_t topk) {
  const auto [places, order] = at::sort(Nearness(wide), -1, /*descending=*/true);
  if (topk == places.size(-1)) return at::zeros_like(places.select(-1, 0), at::kBool);
  // Eight units in the last place of what the two proximities sum: what rounding a dot product
  // costs depends on its terms, not on its sum.
  const at::Tensor terms = at::matmul(wide[0].abs(), wide[1].abs().transpose(-2, -1)) +
                           wide[1].square().sum(-1).unsqueeze(-2) / 2;
  const at::Tensor proximity = places.square() / -2;
  const at::Tensor gap = proximity.select(-1, topk - 1) - proximity.select(-1, topk);
  return gap.lt(terms.gather(-1, order.narrow(-1, topk - 1, 2)).amax(-1) * (8.0 * 0x1p-23));
}

inline AttentionCase KnnExactCase(const Tensors& qkv, int64_t topk, const at::Tensor& bias = {},
                                  const Scale& scale = std::nullopt) {
  return {.name = "knn_attention_exact, topk " + std::to_string(topk),
          .inputs = {qkv[0], qkv[1], qkv[2], bias},
          .run =
              [=](const Tensors& t) {
                return KnnAttentionExact(t[0], t[1], t[2], topk, scale, IfDefined(t[3]));
              },
          .definition =
              [=](const Tensors& t) {
                const at::Tensor nearness = Nearness(InFp64(t));
                const at::Tensor order = at::argsort(nearness, /*stable=*/true, -1, true);
                const at::Tensor far = at::ones_like(nearness, at::kBool)
                                           .scatter_(-1, order.narrow(-1, 0, topk), false)
                                           .logical_or(nearness.eq(kMasked));
                const at::Tensor logits = BiasedLogits(t[0], t[1], t[3], scale);
                return at::matmul(SoftmaxOverFinite(logits.masked_fill(far, kMasked)), t[2]);
              },
          .ambiguous = [=](const Tensors& wide) { return RowsOfTwins(wide, topk); }};
}

struct ActivationArguments {
  std::string name = "softmax";
  double scale = 1.0;
  double bias = 0.0;
};

inline at::Tensor Activate(const ActivationArguments& activation, const at::Tensor& logits) {
  const at::Tensor positive = at::where(logits.lt(0), at::zeros({}, logits.options()), logits);
  if (activation.name == "softmax") return SoftmaxOverFinite(logits);
  if (activation.name == "gelu") return logits * 0.5 * at::erfc(logits * -std::sqrt(0.5));
  if (activation.name == "relu") return positive;
  return positive * positive * activation.scale + activation.bias;
}

// inputs: query, static_key [H, keys, D], value.
inline AttentionCase StaticKeyCase(const Tensors& inputs,
                                   const ActivationArguments& activation = {},
                                   const Scale& scale = std::nullopt) {
  return {.name = "static_key_attention, " + activation.name,
          .inputs = inputs,
          .run =
              [=](const Tensors& t) {
                return StaticKeyAttention(t[0], t[1], t[2], activation.name, scale,
                                          activation.scale, activation.bias);
              },
          .definition =
              [=](const Tensors& t) {
                const at::Tensor logits =
                    at::matmul(t[0], t[1].transpose(-2, -1)) * ScaleOf(scale, t[0]);
                return at::matmul(Activate(activation, logits), t[2]);
              }};
}

// The 3x3 patches of tokens [B, H, height * width, D] on a map: [B, H, height * width, D * 9].
inline at::Tensor Patches(const at::Tensor& tokens, int64_t height, int64_t width) {
  const at::Tensor map =
      at::constant_pad_nd(tokens.unflatten(2, {height, width}), {0, 0, 1, 1, 1, 1});
  Tensors taps;
  for (int64_t dy = 0; dy < 3; ++dy) {
    for (int64_t dx = 0; dx < 3; ++dx) {
      taps.push_back(map.narrow(2, dy, height).narrow(3, dx, width).flatten(2, 3));
    }
  }
  return at::stack(taps, -1).flatten(-2, -1);
}

// inputs: query, value, weight, bias or undefined, cls_key or undefined.
inline AttentionCase ConvStaticKeyCase(const Tensors& inputs, std::array<int64_t, 2> grid,
                                       const ActivationArguments& activation = {},
                                       const Scale& scale = std::nullopt) {
  return {.name = "conv_static_key_attention, " + activation.name + ", " + std::to_string(grid[0]) +
                  "x" + std::to_string(grid[1]),
          .inputs = inputs,
          .run =
              [=](const Tensors& t) {
                return ConvStaticKeyAttention(t[0], t[1], grid, t[2], IfDefined(t[3]),
                                              IfDefined(t[4]), activation.name, scale,
                                              activation.scale, activation.bias);
              },
          .definition =
              [=](const Tensors& t) {
                const int64_t heads = t[0].size(1), positions = grid[0] * grid[1];
                const int64_t prefix = t[0].size(2) - positions;
                const at::Tensor filters = t[2].reshape({heads, positions, -1});
                at::Tensor patches = Patches(t[0].narrow(2, prefix, positions), grid[0], grid[1]);
                if (prefix > 0)
                  patches = at::cat({Patches(t[0].narrow(2, 0, 1), 1, 1), patches}, 2);
                at::Tensor logits = at::matmul(patches, filters.transpose(-2, -1));
                if (t[3].defined()) logits = logits + t[3].reshape({heads, 1, positions});
                if (prefix > 0)
                  logits = at::cat({at::matmul(t[0], t[4].transpose(-2, -1)), logits}, 3);
                return at::matmul(Activate(activation, logits * ScaleOf(scale, t[0])), t[1]);
              }};
}

// Random inputs of the two above.
inline Tensors RandomStaticKey(int64_t batch, int64_t heads, int64_t queries, int64_t keys,
                               int64_t dim, at::ScalarType type) {
  const Tensors tokens = RandomTokens(batch, heads, std::max(queries, keys), dim, type);
  return {tokens[0].narrow(2, 0, queries), at::randn({heads, keys, dim}).to(type),
          tokens[2].narrow(2, 0, keys)};
}
inline Tensors RandomConvStaticKey(int64_t batch, int64_t heads, std::array<int64_t, 2> grid,
                                   int64_t dim, bool class_token, bool bias, at::ScalarType type) {
  const int64_t positions = grid[0] * grid[1];
  const Tensors tokens = RandomTokens(batch, heads, positions + class_token, dim, type);
  return {tokens[0], tokens[2], (at::randn({heads * positions, dim, 3, 3}) / 3).to(type),
          bias ? at::randn({heads * positions}).to(type) : at::Tensor(),
          class_token ? at::randn({heads, 1, dim}).to(type) : at::Tensor()};
}

}  // namespace fovea::kernels
