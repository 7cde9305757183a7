// The weights that attention operators give each query, as tensors: what Explain draws and
// measures/ measures.
//
// Every operator here is linear in its values, output = weights @ value: its reference, given the
// identity for values, returns the weights. So a map has the reference's cost and is the definition
// itself. Arguments as the operator's, without value; maps come in fp32 (fp64 for fp64), padding
// left out. Differentiable; also torch.ops.fovea.*, under the names of the functions in snake_case.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace fovea::kernels {

// [B, heads, Nq, Nk].
at::Tensor DenseAttentionMap(const at::Tensor& query, const at::Tensor& key,
                             std::optional<double> scale = std::nullopt,
                             const std::optional<at::Tensor>& bias = std::nullopt);
at::Tensor KnnAttentionMap(const at::Tensor& query, const at::Tensor& key, int64_t topk,
                           std::optional<double> scale = std::nullopt,
                           const std::optional<at::Tensor>& bias = std::nullopt);
at::Tensor KnnAttentionExactMap(const at::Tensor& query, const at::Tensor& key, int64_t topk,
                                std::optional<double> scale = std::nullopt,
                                const std::optional<at::Tensor>& bias = std::nullopt);
at::Tensor StaticKeyAttentionMap(const at::Tensor& query, const at::Tensor& static_key,
                                 std::string_view activation = "softmax",
                                 std::optional<double> scale = std::nullopt,
                                 double activation_scale = 1.0, double activation_bias = 0.0);
at::Tensor ConvStaticKeyAttentionMap(const at::Tensor& query, at::IntArrayRef grid,
                                     const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias = std::nullopt,
                                     const std::optional<at::Tensor>& cls_key = std::nullopt,
                                     std::string_view activation = "softmax",
                                     std::optional<double> scale = std::nullopt,
                                     double activation_scale = 1.0, double activation_bias = 0.0);

// Of maps [B, heads, H, W, D]: [B, heads, H*W, H*W], zero outside a position's windows.
at::Tensor WindowAttentionMap(const at::Tensor& query, const at::Tensor& key,
                              at::IntArrayRef window, at::IntArrayRef shift,
                              std::optional<double> scale = std::nullopt,
                              const std::optional<at::Tensor>& bias = std::nullopt);
at::Tensor CrissCrossAttentionMap(const at::Tensor& query, const at::Tensor& key,
                                  std::optional<double> scale = std::nullopt);
at::Tensor AxialWindowAttentionMap(const at::Tensor& query, const at::Tensor& key, int64_t window,
                                   int64_t shift, std::optional<double> scale = std::nullopt,
                                   const std::optional<at::Tensor>& bias_rows = std::nullopt,
                                   const std::optional<at::Tensor>& bias_columns = std::nullopt,
                                   const std::optional<at::Tensor>& bias_window = std::nullopt,
                                   const std::optional<at::Tensor>& pad_key = std::nullopt);

}  // namespace fovea::kernels
