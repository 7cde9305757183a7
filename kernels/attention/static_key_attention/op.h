// Static-key attention: the keys are a parameter, learned and the same for every input.
//   Static Key Attention in Vision, section 4.1, algorithm 1.
//   Cost: 4*B*H*Nq*keys*D FLOPs and one projection less than dense attention; no Nq x keys buffer
//   in memory, except while gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace fovea::kernels {

// activation(query @ static_key^T * scale) @ value, with logits in fp32 whatever the input type (in
// fp64 for fp64 inputs).
//
// query: [B, H, Nq, D]; value: [B, H, keys, D]; static_key: [H, keys, D]; one type and device, none
//   but B and H empty. Strides are free, the last dimension is contiguous. fp32 and bf16 run
//   vectorised on the CPU; fp32, bf16 and fp16 on CUDA. Static keys fix the number of values.
// activation: "softmax", or, element by element and not normalised, "gelu" (exact), "relu",
//   "star_relu" (activation_scale * relu(x)^2 + activation_bias; only it takes these two).
// scale: finite; 1/sqrt(D) if not given; 1.0: none.
//
// Returns [B, H, Nq, D] in query's type, laid out in memory as [B, Nq, H, D].
// A row with a NaN logit is NaN; softmax: also one with a +inf logit.
// Differentiable in query, static_key and value (twice).
// Goes through the dispatcher, as torch.ops.fovea.static_key_attention. FOVEA_FORCE_KERNEL
//   (dispatch.h) picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor StaticKeyAttention(const at::Tensor& query, const at::Tensor& static_key,
                              const at::Tensor& value, std::string_view activation = "softmax",
                              std::optional<double> scale = std::nullopt,
                              double activation_scale = 1.0, double activation_bias = 0.0);

}  // namespace fovea::kernels
