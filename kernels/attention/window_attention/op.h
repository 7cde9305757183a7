// Attention within the windows of a map.
//   Swin Transformer (Liu et al., ICCV 2021), section 3.2; windows of one row or column: axial
//   attention (Ho et al., 2019); stripes: CSWin Transformer (Dong et al., CVPR 2022), equation 2.
//   Cost: 4*B*heads*H*W*h*w*D FLOPs; no buffer of that many logits in memory, except while
//   gradients are computed.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// Cuts the map into windows of `window` = (h, w) tokens, after rolling it by -`shift`; the tokens
// of a window attend each other; the result is rolled back.
//   logits = query @ key^T * scale + bias, in fp32 whatever the input type (fp64 for fp64 inputs).
// A row of the map is a window (1, W), a column (H, 1), a stripe (s, W).
//
// query, key, value: [B, heads, H, W, D]; one type, device and shape, none but B and heads empty.
//   Strides are free, the last dimension is contiguous. fp32 and bf16 run vectorised on the CPU;
//   fp32, bf16 and fp16 on CUDA.
// window: divides the map, h | H and w | W.
// shift: in [0, h) and [0, w). Where it is not zero, the last window of that axis holds tokens from
//   both ends of the map; they do not see each other (Swin's mask; here -inf and not -100).
// scale: finite; 1/sqrt(D) if not given.
// bias: [heads, h*w, h*w], fp32 or query's type; tokens of a window in row-major order. -inf masks;
//   a row without a finite logit is zero. A row with a NaN or a +inf logit is NaN.
//
// Returns [B, heads, H, W, D] in query's type, laid out in memory as [B, H, W, heads, D]: permuting
//   to that and flattening the last two dimensions is a view.
// Differentiable in query, key, value and bias (twice).
// Goes through the dispatcher, as torch.ops.fovea.window_attention. FOVEA_FORCE_KERNEL (dispatch.h)
//   picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor WindowAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           at::IntArrayRef window, at::IntArrayRef shift,
                           std::optional<double> scale = std::nullopt,
                           const std::optional<at::Tensor>& bias = std::nullopt);

}  // namespace fovea::kernels
