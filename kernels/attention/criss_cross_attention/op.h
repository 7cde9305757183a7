// Criss-cross attention: each position attends the row and the column it lies on.
//   CCNet (Huang et al., ICCV 2019), section 3.2, whose affinities have H + W - 1 entries.
//   Cost: 4*B*heads*H*W*(H+W)*D FLOPs; no buffer of that many logits in memory, except while
//   gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace fovea::kernels {

// One softmax over the W keys of a position's row and the H keys of its column, itself counted
// once, times their values. logits = query . key * scale, in fp32 whatever the input type (fp64 for
// fp64).
//
// query, key, value: [B, heads, H, W, D]; one type, device and shape, none but B and heads empty.
//   Strides are free, the last dimension is contiguous. fp32 and bf16 run vectorised on the CPU;
//   fp32, bf16 and fp16 on CUDA.
// scale: finite; 1/sqrt(D) if not given.
//
// Returns [B, heads, H, W, D] in query's type, laid out in memory as [B, H, W, heads, D].
// A position with a NaN or a +inf logit is NaN.
// Differentiable in query, key and value (twice).
// Goes through the dispatcher, as torch.ops.fovea.criss_cross_attention. FOVEA_FORCE_KERNEL
//   (dispatch.h) picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor CrissCrossAttention(const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, std::optional<double> scale = std::nullopt);

}  // namespace fovea::kernels
