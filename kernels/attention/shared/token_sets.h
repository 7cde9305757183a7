// What the contracts of the attention operators have in common.
//
// Token sets are [batch, heads, tokens, head_dim], maps [batch, heads, height, width, head_dim].
// Strides are free (views of one QKV tensor are read in place), the last dimension is contiguous.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/contract.h"

namespace fovea::kernels {

// query [B, H, Nq, D], key and value [B, H, Nk, D]: one type and device, none but B and H empty.
void CheckTokenSets(const Contract& contract, const at::Tensor& query, const at::Tensor& key,
                    const at::Tensor& value);

// One [B, H, N, D] argument as `query` is: its type, device, batch size, heads and head_dim.
void CheckTokenSetLike(const Contract& contract, Contract::Argument argument,
                       const at::Tensor& query);

// query, key and value [B, heads, H, W, D]: one type, device and shape, none but B and heads empty.
void CheckMaps(const Contract& contract, const at::Tensor& query, const at::Tensor& key,
               const at::Tensor& value);

// A bias that broadcasts to [B, H, Nq, Nk].
void CheckLogitBias(const Contract& contract, const std::optional<at::Tensor>& bias,
                    const at::Tensor& query, const at::Tensor& key);

// A bias [heads, tokens, tokens] per head, for example relative positions in a window.
void CheckPositionBias(const Contract& contract, Contract::Argument bias, const at::Tensor& query,
                       const c10::SymInt& heads, const c10::SymInt& tokens);

// [B, H, N, D] for query [B, H, N, D], laid out in memory as [B, N, H, D]: transposing (1, 2) and
// flattening the last two dimensions is a view, so the projection that follows copies nothing.
at::Tensor EmptyTokens(const at::Tensor& query);

// [B, heads, H, W, D], laid out in memory as [B, H, W, heads, D], for the same reason.
at::Tensor EmptyMap(const at::Tensor& query);

// 1/sqrt(head_dim) where no scale is given.
double ScaleOrDefault(std::optional<double> scale, const at::Tensor& query);

// The type that logits are computed in: fp32, and fp64 for fp64.
at::ScalarType LogitType(const at::Tensor& query);

// Softmax over the last dimension, zero where all of a row is -inf, NaN where it holds NaN or +inf;
// its gradients are finite in all other rows. What every reference uses.
at::Tensor SoftmaxOrZero(const at::Tensor& logits);

// What the implementations in C++ and CUDA want of a bias.
std::optional<at::Tensor> InFp32(const std::optional<at::Tensor>& bias);

// Expanded to [B, H, Nq, Nk]: strides of broadcast dimensions 0. Converted to fp32 before that, as
// small as it was given, if `fp32`.
std::optional<at::Tensor> ExpandLogitBias(const std::optional<at::Tensor>& bias,
                                          const at::Tensor& query, const at::Tensor& key,
                                          bool fp32);

}  // namespace fovea::kernels
