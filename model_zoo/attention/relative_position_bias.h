// A bias on the logits of a window's tokens that depends on how far apart they lie.
//   Swin Transformer (Liu et al., ICCV 2021), section 3.2, equation 4.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace fovea::models {

// From a learned table [(2h-1)(2w-1), heads], indexed by (row distance + h - 1) * (2w - 1) + column
// distance + w - 1, to the bias [heads, h*w, h*w] of a window of h x w tokens in row-major order.
// Differentiable.
at::Tensor RelativePositionBias(const at::Tensor& table, const std::array<int64_t, 2>& window);

// A table that was learned for another window, as timm 1.0 resizes it (layers/pos_embed_rel.py):
// BEiT's scheme, in which the learned distances lie on a geometric series over the new ones, read
// off linearly.
// Where one side changes, the other's distances are read off their series too, as there.
//   `table` FP32 [(2h-1)(2w-1), heads]; `from` is its window.
at::Tensor ResizeRelativePositionTable(const at::Tensor& table, const std::array<int64_t, 2>& from,
                                       const std::array<int64_t, 2>& to);

}  // namespace fovea::models
