// Learned absolute position embeddings for another grid than they were learned on.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace fovea::models {

// `stored` FP32 [1, prefix_tokens + h*w, channels] of a square map h = w, as timm's
// resample_abs_pos_embed resizes it: prefix tokens as they are, the map bicubic with antialiasing.
// Returns [1, prefix_tokens + to[0]*to[1], channels]; `stored` itself where it has as many tokens,
// or is not that of a square map.
at::Tensor ResizePositionEmbedding(const at::Tensor& stored, int64_t prefix_tokens,
                                   const std::array<int64_t, 2>& to);

// The same for an embedding FP32 [1, height, width, channels] that is stored as a map, as timm's
// resample_abs_pos_embed_nhwc. Returns [1, to[0], to[1], channels].
at::Tensor ResizePositionMap(const at::Tensor& stored, const std::array<int64_t, 2>& to);

}  // namespace fovea::models
