// Axially expanded window attention: some heads attend rows, some columns, some local windows.
//   AEWin Transformer (paper, section 3.2): H-MSA, V-MSA and W-MSA side by side.
//   Cost: B*D*H*W*heads*(W + H + 2*w*w) FLOPs; no buffer of as many logits in memory, except while
//   gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// In one call: the first quarter of the heads attends within rows, the second within columns, the
// last half within windows of `window` x `window` tokens, shifted by `shift` on both axes as
// window_attention does. logits = query @ key^T * scale + bias, in fp32 whatever the input type
// (fp64 for fp64 inputs).
//
// query, key, value: [B, heads, H, W, D]; heads a multiple of 4; one type, device and shape, none
//   but B and heads empty. Strides are free, the last dimension is contiguous. fp32 and bf16 run
//   vectorised on the CPU; fp32, bf16 and fp16 on CUDA.
// window: in [1, 256]. Where it does not divide the map, the map is padded at the bottom and at the
//   right up to whole windows (then rolled, as Swin does): window heads see pad_key and pad_value
//   at padded places, which attend nothing. Rows and columns cover the real map only.
// shift: in [0, window).
// scale: finite; 1/sqrt(D) if not given.
// bias_rows [heads/4, W, W], bias_columns [heads/4, H, H], bias_window [heads/2, w*w, w*w]: fp32 or
//   query's type.
// pad_key, pad_value: [heads/2, D] in query's type; zeros if not given. What a projection makes of
//   a padded (zero) token, its bias.
//
// Returns [B, heads, H, W, D] in query's type, laid out in memory as [B, H, W, heads, D].
// A position without a finite logit is zero, one with a NaN or a +inf logit is NaN.
// Differentiable in all tensors (twice).
// Goes through the dispatcher, as torch.ops.fovea.axial_window_attention. FOVEA_FORCE_KERNEL
//   (dispatch.h) picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor AxialWindowAttention(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, int64_t window, int64_t shift,
                                std::optional<double> scale = std::nullopt,
                                const std::optional<at::Tensor>& bias_rows = std::nullopt,
                                const std::optional<at::Tensor>& bias_columns = std::nullopt,
                                const std::optional<at::Tensor>& bias_window = std::nullopt,
                                const std::optional<at::Tensor>& pad_key = std::nullopt,
                                const std::optional<at::Tensor>& pad_value = std::nullopt);

}  // namespace fovea::kernels
