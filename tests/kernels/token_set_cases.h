// Cases of the operators on token sets: dense, k-NN, static-key and convolutional static-key
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
#include "kernels/attention/knn_attention/op.h"
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

inline Rounded Logits(const at::Tensor& query, const at::Tensor& key, const at::Tensor& bias,
                      const Scale& scale, const Precision& p) {
  const Rounded products = Product(Exact(query), Exact(key.transpose(-2, -1)), p.sums);
  const Rounded logits = Scaled(products, ScaleOf(scale, query), p.sums);
  return bias.defined() ? Sum(logits, Exact(bias), p.sums) : logits;
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
              [=](const Tensors& t, const Precision& p) {
                const Rounded logits = Logits(t[0], t[1], t[3], scale, p);
                return SoftmaxAverage(logits, Exact(t[2]), p);
              }};
}

// Attention to the topk keys of the largest `scores`, ties to the lower index; those of -inf are
// never taken. A row is ambiguous where a key that is taken may score less than one that is not.
inline Rounded AttendLargest(const Rounded& logits, const Rounded& scores, int64_t topk,
                             const at::Tensor& value, const Precision& p) {
  const at::Tensor order = at::argsort(scores.value, /*stable=*/true, -1, /*descending=*/true);
  const at::Tensor left = at::ones_like(scores.value, at::kBool)
                              .scatter_(-1, order.narrow(-1, 0, topk), false)
                              .logical_or_(scores.value.eq(kMasked));
  const at::Tensor least = (scores.value - scores.Margin()).masked_fill(left, -kMasked).amin(-1);
  const at::Tensor most =
      (scores.value + scores.Margin()).masked_fill(left.logical_not(), kMasked).amax(-1);
  Rounded output = SoftmaxAverage(Masked(logits, left), Exact(value), p);
  output.squares.masked_fill_(most.ge(least).unsqueeze(-1), -kMasked);
  return output;
}

inline AttentionCase KnnCase(const Tensors& qkv, int64_t topk, const at::Tensor& bias = {},
                             const Scale& scale = std::nullopt) {
  return {.name = "knn_attention, topk " + std::to_string(topk),
          .inputs = {qkv[0], qkv[1], qkv[2], bias},
          .run =
              [=](const Tensors& t) {
                return KnnAttention(t[0], t[1], t[2], topk, scale, IfDefined(t[3]));
              },
          .definition =
              [=](const Tensors& t, const Precision& p) {
                const Rounded logits = Logits(t[0], t[1], t[3], scale, p);
                return AttendLargest(logits, logits, topk, t[2], p);
              }};
}

// query . key - |key|^2 / 2, by the distance, the published measure; -inf for keys that are no
// neighbours. [B, H, Nq, Nk].
inline Rounded Nearness(const Tensors& wide, const Precision& p) {
  const at::Tensor &query = wide[0], &key = wide[1], &bias = wide[3];
  const Rounded lengths = Product(Exact(key.unsqueeze(-2)), Exact(key.unsqueeze(-1)), p.sums)
                              .Map([](const at::Tensor& t) { return t.flatten(-3).unsqueeze(-2); });
  Rounded nearness = Sum(Product(Exact(query), Exact(key.transpose(-2, -1)), p.sums),
                         Scaled(lengths, -0.5, p.sums), p.sums);
  const at::Tensor distance = at::cdist(query, key, 2.0, /*compute_mode=*/2);
  nearness.value = (query.square().sum(-1, /*keepdim=*/true) - distance.square()) / 2;
  return bias.defined() ? Masked(nearness, bias.isfinite().logical_not()) : nearness;
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
              [=](const Tensors& t, const Precision& p) {
                return AttendLargest(Logits(t[0], t[1], t[3], scale, p), Nearness(t, p), topk, t[2],
                                     p);
              }};
}

// The case with other queries in its ambiguous rows, so that rounding decides nothing.
inline AttentionCase WithMargin(AttentionCase c) {
  at::Tensor query =
      at::empty_strided(c.inputs[0].sizes(), c.inputs[0].strides(), c.inputs[0].options());
  query.copy_(c.inputs[0]);
  c.inputs[0] = query;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const at::Tensor ambiguous = Expected(c).squares.eq(-kMasked).any(-1, /*keepdim=*/true);
    if (!ambiguous.any().item<bool>()) break;
    query.copy_(at::where(ambiguous, at::randn_like(query), query));
  }
  return c;
}

struct ActivationArguments {
  std::string name = "softmax";
  double scale = 1.0;
  double bias = 0.0;
};

// The values, weighted by what the activation makes of the logits.
inline Rounded WeightedSum(const ActivationArguments& activation, const Rounded& logits,
                           const at::Tensor& value, const Precision& p) {
  if (activation.name == "softmax") return SoftmaxAverage(logits, Exact(value), p);
  const Rounded weights = activation.name == "gelu" ? Gelu(logits, p.sums)
                          : activation.name == "relu"
                              ? Relu(logits)
                              : StarRelu(logits, activation.scale, activation.bias, p.sums);
  return Product(Stored(weights, p.type), Exact(value), p.sums);
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
              [=](const Tensors& t, const Precision& p) {
                const Rounded logits = Logits(t[0], t[1], {}, scale, p);
                return WeightedSum(activation, logits, t[2], p);
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
              [=](const Tensors& t, const Precision& p) {
                const int64_t heads = t[0].size(1), positions = grid[0] * grid[1];
                const int64_t prefix = t[0].size(2) - positions;
                const at::Tensor filters = t[2].reshape({heads, positions, -1});
                at::Tensor patches = Patches(t[0].narrow(2, prefix, positions), grid[0], grid[1]);
                if (prefix > 0)
                  patches = at::cat({Patches(t[0].narrow(2, 0, 1), 1, 1), patches}, 2);
                Rounded logits = Product(Exact(patches), Exact(filters.transpose(-2, -1)), p.sums);
                if (t[3].defined())
                  logits = Sum(logits, Exact(t[3].reshape({heads, 1, positions})), p.sums);
                if (prefix > 0) {
                  const Rounded of_class =
                      Product(Exact(t[0]), Exact(t[4].transpose(-2, -1)), p.sums);
                  logits = Concatenated(of_class, logits, 3);
                }
                logits = Scaled(logits, ScaleOf(scale, t[0]), p.sums);
                return WeightedSum(activation, logits, t[1], p);
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
