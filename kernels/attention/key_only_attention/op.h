// Key-only attention: every token is gated by one summary of the keys, and there are no queries.
//   LinGlo (Rethinking Query-Key Pairwise Interactions in Vision Transformers), equations 2 and 3
//   and the product of equation 4. Cost: 5*B*H*N*D FLOPs; memory for the output and
//   for partial sums, a 256th of it.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace fovea::kernels {

// Per head: logits_n = key_n . saliency * scale, accumulated in fp32 whatever the input type (in
// fp64 for fp64 inputs); G = sum over n of softmax(logits)_n * key_n; output_n = G * value_n,
// elementwise.
//
// key, value: [B, H, N, D]; one type and device, no dimension but B and H empty. Strides are free
//   (views of one KV tensor are read in place), the last dimension is contiguous. fp32 and bf16 run
//   vectorised on the CPU; fp32, bf16 and fp16 on CUDA; what an implementation lacks (fp64
//   anywhere, fp16 on the CPU) runs on the reference.
// saliency: [H, D], key's type and device.
// scale: finite; 1/sqrt(D) if not given.
//
// As in softmax, a head with a NaN or +inf logit, or with none but -inf, has a NaN output; a -inf
//   logit beside finite ones weighs nothing. What multiplies an infinite key or value follows IEEE
//   arithmetic: 0 * inf is NaN, in that channel.
//
// Returns [B, H, N, D] in key's type, laid out in memory as [B, N, H, D]: transposing (1, 2) and
//   flattening the last two dimensions is a view, so the projection that follows copies nothing.
// Differentiable in key, value and saliency (twice).
// Goes through the dispatcher, as torch.ops.fovea.key_only_attention. FOVEA_FORCE_KERNEL
//   (dispatch.h) picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor KeyOnlyAttention(const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& saliency, std::optional<double> scale = std::nullopt);

}  // namespace fovea::kernels
