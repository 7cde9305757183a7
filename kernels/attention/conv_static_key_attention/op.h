// Convolutional static-key attention: the logits are a convolution of the query map.
//   Static Key Attention in Vision, section 4.2. Its algorithm 2 does not run as printed (it
//   multiplies by the query again, and puts the class key last while the class value stands first);
//   the section's text is what is meant.
//   Cost: B*H*M*(18*M*D + 2*M*D) FLOPs, M = map positions; the logits are never stored, except
//   while gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace fovea::kernels {

// activation(A * scale) @ value, with M = grid[0] * grid[1] and
//   A[n, m] = (3x3 convolution, padding 1, of the head's query map)[channel head * M + m] at n.
// Logits are in fp32 whatever the input type (in fp64 for fp64 inputs).
//
// query, value: [B, H, M, D], or [B, H, 1 + M, D] with cls_key: the class token first, then the map
//   in row-major order. One type and device, none but B and H empty; strides are free, the last
//   dimension is contiguous. fp32 and bf16 run vectorised on the CPU; fp32, bf16 and fp16 on CUDA.
// grid: (height, width) of the map, each in [1, 32768].
// weight: [H*M, D, 3, 3]; bias: [H*M]; both in query's type. In torch's memory format
//   channels_last weights are read in place; CUDA copies others once a call, and AMX's tiles, where
//   the CPU has them, take only these.
// cls_key: [H, 1, D]. With it there are 1 + M keys: A[n, 0] = query_n . cls_key, and the class
//   token's own row is the convolution of a map of one position, the centre tap. The paper does not
//   say what that row is: our reading.
// activation, scale, activation_scale, activation_bias: as static_key_attention.
//
// Returns [B, H, tokens, D] in query's type, laid out in memory as [B, tokens, H, D].
// A row with a NaN logit is NaN; softmax: also one with a +inf logit.
// Differentiable in all tensors (twice).
// Goes through the dispatcher, as torch.ops.fovea.conv_static_key_attention. FOVEA_FORCE_KERNEL
//   (dispatch.h) picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor ConvStaticKeyAttention(const at::Tensor& query, const at::Tensor& value,
                                  at::IntArrayRef grid, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias = std::nullopt,
                                  const std::optional<at::Tensor>& cls_key = std::nullopt,
                                  std::string_view activation = "softmax",
                                  std::optional<double> scale = std::nullopt,
                                  double activation_scale = 1.0, double activation_bias = 0.0);

}  // namespace fovea::kernels
