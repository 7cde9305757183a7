// Attentions that are a view of a map and window_attention: no kernels of their own.
//
// Each takes query, key, value [B, heads, H, W, D] and scale under window_attention's contract and
// returns [B, heads, H, W, D]; differentiable, through window_attention. Also torch.ops.fovea.*,
// under the names of the functions in snake_case. For callers from PyTorch, and for measuring; the
// zoo's modules of these names take any attention core, and put the same windows together around it
// (model_zoo/attention/windowed_heads.h).
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// Each position attends its row, and then its column what the rows have gathered: the weights of
// both come from the same query and key.
//   Axial attention (Ho et al., Axial Attention in Multidimensional Transformers, 2019, section 3).
//   A block that projects again in between calls window_attention with (1, W), then (H, 1).
at::Tensor AxialAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          std::optional<double> scale = std::nullopt);

// The first half of the heads attends horizontal stripes of `stripe` rows, the second half vertical
// stripes of `stripe` columns. heads even; stripe divides H and W.
//   CSWin Transformer (Dong et al., CVPR 2022), section 3.2.
at::Tensor CrossShapedWindowAttention(const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, int64_t stripe,
                                      std::optional<double> scale = std::nullopt);

// The first half of the heads attends `pale`[0] rows at a time, the second half `pale`[1] columns:
// not neighbours, but spread evenly over the map, H / pale[0] rows (W / pale[1] columns) apart.
// heads even; pale[0] divides H, pale[1] divides W.
//   Pale Transformer (Wu et al., AAAI 2022), section 3.2.
at::Tensor PaleAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         at::IntArrayRef pale, std::optional<double> scale = std::nullopt);

}  // namespace fovea::kernels
