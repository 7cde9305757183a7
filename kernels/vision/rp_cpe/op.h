// RP-CPE: residual parallel conditional positional encoding, parallel depth-wise convolutions and a
// skip connection.
//   LinGlo, section 3.2 and figure 2(b): inside each FFN, four 3x3 branches.
//   Cost: 18*B*C*H*W FLOPs and one pass over the map, however many branches there are.
#pragma once
#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// y = x + sum over branches b of (conv_b(x) + biases[b]), conv_b depth-wise with weights[b], kernel
//   3x3, stride 1, zero padding 1. Accumulated in fp32 whatever the input type (fp64 for fp64).
//
// x: [B, C, H, W], no dimension but B empty. Strides are free. Read where it lies: a map whose
//   channels are contiguous in memory (channels-last, which tokens [B, N, C] seen as a map are; the
//   other strides are free, so a class token may be skipped by a view) and one whose columns are.
//   fp32 and bf16 run vectorised on the CPU; fp32, bf16 and fp16 on CUDA; others on the reference.
// weights: [branches, C, 3, 3], biases: [branches, C]; at least one branch; each fp32 or x's type.
//   A convolution is linear: one branch with MergeRpCpe's weights (merge.h) is the same as four,
//   and as fast, but for the merging of their few weights, which each call does anew.
//
// Returns [B, C, H, W] in x's type: channels-last where x's channels are contiguous in memory and x
//   as a whole is not, contiguous elsewhere.
// Differentiable in x, weights and biases (twice).
// Goes through the dispatcher, as torch.ops.fovea.rp_cpe. FOVEA_FORCE_KERNEL (dispatch.h) picks the
//   implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor RpCpe(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases);

// gelu(RpCpe(x, weights, biases)), the exact GELU, as an FFN has it: for prepared models, without
// gradients and not through the dispatcher. On the CPU in the same pass, so that nothing between
// the two is stored or rounded.
at::Tensor RpCpeGelu(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases);

}  // namespace fovea::kernels
