#include "kernels/attention/attention_maps.h"

#include <ATen/Functions.h>
#include <torch/library.h>

#include "kernels/attention/axial_window_attention/implementations.h"
#include "kernels/attention/axial_window_attention/op.h"
#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/conv_static_key_attention/op.h"
#include "kernels/attention/criss_cross_attention/implementations.h"
#include "kernels/attention/criss_cross_attention/op.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/dense_attention/op.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/knn_attention/op.h"
#include "kernels/attention/knn_attention_exact/implementations.h"
#include "kernels/attention/knn_attention_exact/op.h"
#include "kernels/attention/shared/token_sets.h"
#include "kernels/attention/static_key_attention/implementations.h"
#include "kernels/attention/static_key_attention/op.h"
#include "kernels/attention/window_attention/implementations.h"
#include "kernels/attention/window_attention/op.h"

namespace fovea::kernels {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Arguments without their data: running the operator on them checks its contract, and no more.
at::Tensor Shape(const at::Tensor& t) { return t.to(at::kMeta); }
OptionalTensor Shape(const OptionalTensor& t) {
  OptionalTensor shape;
  if (t) shape = Shape(*t);
  return shape;
}

at::Tensor Wide(const at::Tensor& t) { return t.to(LogitType(t)); }

OptionalTensor Wide(const OptionalTensor& t) {
  OptionalTensor wide;
  if (t) wide = Wide(*t);
  return wide;
}

// The identity as the values of `keys` tokens: [B, heads, keys, keys].
at::Tensor IdentityValues(const at::Tensor& query, int64_t keys) {
  return at::eye(keys, query.options().dtype(LogitType(query)))
      .expand({query.size(0), query.size(1), keys, keys});
}

// The same for a map: [B, heads, H, W, H*W].
at::Tensor IdentityMap(const at::Tensor& query) {
  const int64_t height = query.size(2), width = query.size(3);
  return IdentityValues(query, height * width).unflatten(2, {height, width});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "dense_attention_map(Tensor query, Tensor key, float? scale=None, Tensor? bias=None) -> "
      "Tensor",
      DenseAttentionMap);
  m.def(
      "knn_attention_map(Tensor query, Tensor key, int topk, float? scale=None, "
      "Tensor? bias=None) -> Tensor",
      KnnAttentionMap);
  m.def(
      "knn_attention_exact_map(Tensor query, Tensor key, int topk, float? scale=None, "
      "Tensor? bias=None) -> Tensor",
      KnnAttentionExactMap);
  m.def(
      "static_key_attention_map(Tensor query, Tensor static_key, str activation=\"softmax\", "
      "float? scale=None, float activation_scale=1.0, float activation_bias=0.0) -> Tensor",
      StaticKeyAttentionMap);
  m.def(
      "conv_static_key_attention_map(Tensor query, int[2] grid, Tensor weight, "
      "Tensor? bias=None, Tensor? cls_key=None, str activation=\"softmax\", float? scale=None, "
      "float activation_scale=1.0, float activation_bias=0.0) -> Tensor",
      ConvStaticKeyAttentionMap);
  m.def(
      "window_attention_map(Tensor query, Tensor key, int[2] window, int[2] shift, "
      "float? scale=None, Tensor? bias=None) -> Tensor",
      WindowAttentionMap);
  m.def("criss_cross_attention_map(Tensor query, Tensor key, float? scale=None) -> Tensor",
        CrissCrossAttentionMap);
  m.def(
      "axial_window_attention_map(Tensor query, Tensor key, int window, int shift, "
      "float? scale=None, Tensor? bias_rows=None, Tensor? bias_columns=None, "
      "Tensor? bias_window=None, Tensor? pad_key=None) -> Tensor",
      AxialWindowAttentionMap);
}

}  // namespace

// The references accept values of another head_dim than the contracts do.

at::Tensor DenseAttentionMap(const at::Tensor& query, const at::Tensor& key,
                             std::optional<double> scale, const OptionalTensor& bias) {
  DenseAttention(Shape(query), Shape(key), Shape(key), scale, Shape(bias));
  return DenseAttentionReference({Wide(query), Wide(key), IdentityValues(query, key.size(2)),
                                  ScaleOrDefault(scale, query),
                                  ExpandLogitBias(bias, query, key, /*fp32=*/false)});
}

at::Tensor KnnAttentionMap(const at::Tensor& query, const at::Tensor& key, int64_t topk,
                           std::optional<double> scale, const OptionalTensor& bias) {
  KnnAttention(Shape(query), Shape(key), Shape(key), topk, scale, Shape(bias));
  return KnnAttentionReference({Wide(query), Wide(key), IdentityValues(query, key.size(2)), topk,
                                ScaleOrDefault(scale, query),
                                ExpandLogitBias(bias, query, key, /*fp32=*/false)});
}

at::Tensor KnnAttentionExactMap(const at::Tensor& query, const at::Tensor& key, int64_t topk,
                                std::optional<double> scale, const OptionalTensor& bias) {
  KnnAttentionExact(Shape(query), Shape(key), Shape(key), topk, scale, Shape(bias));
  return KnnAttentionExactReference({Wide(query), Wide(key), IdentityValues(query, key.size(2)),
                                     topk, ScaleOrDefault(scale, query),
                                     ExpandLogitBias(bias, query, key, /*fp32=*/false)});
}

at::Tensor StaticKeyAttentionMap(const at::Tensor& query, const at::Tensor& static_key,
                                 std::string_view activation, std::optional<double> scale,
                                 double activation_scale, double activation_bias) {
  const Contract contract("static_key_attention_map");
  contract.HasRank({"static_key", static_key}, 3, "[heads, keys, head_dim]");
  contract.HasRank({"query", query}, 4, "[batch, heads, tokens, head_dim]");
  const at::Tensor value =
      Shape(static_key)
          .unsqueeze(0)
          .expand({query.size(0), static_key.size(0), static_key.size(1), static_key.size(2)});
  StaticKeyAttention(Shape(query), Shape(static_key), value, activation, scale, activation_scale,
                     activation_bias);
  return StaticKeyAttentionReference(
      {Wide(query), Wide(static_key), IdentityValues(query, static_key.size(1)),
       CheckedActivation(contract, activation, activation_scale, activation_bias),
       ScaleOrDefault(scale, query)});
}

at::Tensor ConvStaticKeyAttentionMap(const at::Tensor& query, at::IntArrayRef grid,
                                     const at::Tensor& weight, const OptionalTensor& bias,
                                     const OptionalTensor& cls_key, std::string_view activation,
                                     std::optional<double> scale, double activation_scale,
                                     double activation_bias) {
  ConvStaticKeyAttention(Shape(query), Shape(query), grid, Shape(weight), Shape(bias),
                         Shape(cls_key), activation, scale, activation_scale, activation_bias);
  const Contract contract("conv_static_key_attention_map");
  return ConvStaticKeyAttentionReference(
      {Wide(query),
       IdentityValues(query, query.size(2)),
       {grid[0], grid[1]},
       Wide(weight),
       bias,
       cls_key,
       CheckedActivation(contract, activation, activation_scale, activation_bias),
       ScaleOrDefault(scale, query)});
}

at::Tensor WindowAttentionMap(const at::Tensor& query, const at::Tensor& key,
                              at::IntArrayRef window, at::IntArrayRef shift,
                              std::optional<double> scale, const OptionalTensor& bias) {
  WindowAttention(Shape(query), Shape(key), Shape(key), window, shift, scale, Shape(bias));
  return WindowAttentionReference({Wide(query),
                                   Wide(key),
                                   IdentityMap(query),
                                   {window[0], window[1]},
                                   {shift[0], shift[1]},
                                   ScaleOrDefault(scale, query),
                                   bias})
      .flatten(2, 3);
}

at::Tensor CrissCrossAttentionMap(const at::Tensor& query, const at::Tensor& key,
                                  std::optional<double> scale) {
  CrissCrossAttention(Shape(query), Shape(key), Shape(key), scale);
  return CrissCrossAttentionReference(
             {Wide(query), Wide(key), IdentityMap(query), ScaleOrDefault(scale, query)})
      .flatten(2, 3);
}

at::Tensor AxialWindowAttentionMap(const at::Tensor& query, const at::Tensor& key, int64_t window,
                                   int64_t shift, std::optional<double> scale,
                                   const OptionalTensor& bias_rows,
                                   const OptionalTensor& bias_columns,
                                   const OptionalTensor& bias_window,
                                   const OptionalTensor& pad_key) {
  AxialWindowAttention(Shape(query), Shape(key), Shape(key), window, shift, scale, Shape(bias_rows),
                       Shape(bias_columns), Shape(bias_window), Shape(pad_key));
  return AxialWindowAttentionReference({Wide(query), Wide(key), IdentityMap(query), window, shift,
                                        ScaleOrDefault(scale, query), bias_rows, bias_columns,
                                        bias_window, Wide(pad_key), std::nullopt})
      .flatten(2, 3);
}

}  // namespace fovea::kernels
