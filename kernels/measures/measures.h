// What KVT measures of each layer, to see what an attention does to a network.
//   KVT (Wang et al., ECCV 2022), section 4.5.
//
// Plain functions of recorded tensors, in fp32 (fp64 for fp64), one number per image,
// differentiable; also torch.ops.fovea.*, under the names of the functions in snake_case. They
// throw c10::Error naming the argument where a shape is wrong.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

namespace fovea::kernels {

// The mean cosine of the angles between different tokens: tokens [B, N, C], N > 1, to [B]. Linear
// in N: the sum over all pairs is the squared length of the sum. A token of length zero is
// orthogonal to all.
at::Tensor TokenCosineSimilarity(const at::Tensor& tokens);

// The standard deviation of each query's weights over its keys, mean over queries and heads:
// weights [B, heads, Nq, Nk] (an attention map, attention_maps.h) to [B].
at::Tensor AttentionStandardDeviation(const at::Tensor& weights);

// ||branch|| / ||main|| of each token, mean over tokens: what a layer adds, against what it adds
// to. branch, main [B, N, C] to [B].
at::Tensor ResidualNormRatio(const at::Tensor& branch, const at::Tensor& main);

// How far a patch looks, in patches: the distances to all patches weighted by attention, mean over
// the query patches. weights [B, heads, N, N] to [B, heads]. The N tokens are `prefix_tokens`
// without a place (class, distillation), which are left out, and then those of `grid` (height,
// width) in row-major order.
at::Tensor Nonlocality(const at::Tensor& weights, at::IntArrayRef grid, int64_t prefix_tokens);

}  // namespace fovea::kernels
