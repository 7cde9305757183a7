// Dense attention: softmax over all keys.
//   Vaswani et al., Attention Is All You Need (2017), equation 1.
//   Cost: 4*B*H*Nq*Nk*D FLOPs; no Nq x Nk buffer in memory, except while gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace fovea::kernels {

// softmax(query @ key^T * scale + bias) @ value, with logits in fp32 whatever the input type (in
// fp64 for fp64 inputs).
//
// query: [B, H, Nq, D]; key, value: [B, H, Nk, D]; one type and device, no dimension but B and H
//   empty. Strides are free (views of one QKV tensor are read in place), the last dimension is
//   contiguous. fp32 and bf16 run vectorised on the CPU; fp32, bf16 and fp16 on CUDA; torch's
//   scaled_dot_product_attention runs instead where it was measured to be faster (README.md).
// scale: finite; 1/sqrt(D) if not given.
// bias: broadcasts to [B, H, Nq, Nk]; fp32 or query's type. -inf masks a key: a row without a
//   finite logit is zero. A row with a NaN or a +inf logit is NaN.
//
// Returns [B, H, Nq, D] in query's type, laid out in memory as [B, Nq, H, D]: transposing (1, 2)
//   and flattening the last two dimensions is a view, so the projection that follows copies
//   nothing.
// Differentiable in query, key, value and bias.
// Goes through the dispatcher, as torch.ops.fovea.dense_attention. FOVEA_FORCE_KERNEL (dispatch.h)
//   picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor DenseAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          std::optional<double> scale = std::nullopt,
                          const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace fovea::kernels
