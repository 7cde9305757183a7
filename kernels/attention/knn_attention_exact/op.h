// Exact k-NN attention: each query attends only its k nearest keys, near in Euclidean distance.
//   KVT (Wang et al., ECCV 2022), section 3.2, the slow version.
//   Cost: 4*B*H*Nq*Nk*D FLOPs; no Nq x Nk buffer in memory, except while gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// Softmax over the logits of the `topk` keys nearest to each query, every other weight zero, times
// value. Near is measured before scale and bias:
//   |query - key|^2 least  <=>  proximity = query . key - |key|^2 / 2 largest,
// accumulated and compared in fp32 whatever the input type (in fp64 for fp64 inputs). What is
// attended is then weighted as in knn_attention: logits = query . key * scale + bias.
//
// query: [B, H, Nq, D]; key, value: [B, H, Nk, D]; one type and device, no dimension but B and H
//   empty. Strides are free, the last dimension is contiguous. Types and devices as knn_attention.
// topk: in [1, Nk], a count of keys. Ties go to the lower key index.
// scale: finite; 1/sqrt(D) if not given.
// bias: broadcasts to [B, H, Nq, Nk]; fp32 or query's type. Keys whose bias is not finite are no
//   neighbours, nor are those infinitely far (a proximity of -inf): a row with fewer than `topk`
//   others attends all of those, a row with none is zero.
//   A row with a NaN or a +inf proximity is NaN.
//
// Returns [B, H, Nq, D] in query's type, laid out in memory as [B, Nq, H, D].
// Differentiable in query, key, value and bias (twice); which keys are selected counts as constant.
// Goes through the dispatcher, as torch.ops.fovea.knn_attention_exact. FOVEA_FORCE_KERNEL
//   (dispatch.h) picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor KnnAttentionExact(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, int64_t topk,
                             std::optional<double> scale = std::nullopt,
                             const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace fovea::kernels
