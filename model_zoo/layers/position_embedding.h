// Absolute position embeddings: learned ones for another grid than they were learned on, and
// computed ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace fovea::models {

// Whether a table of `places` was learned on another map than one of to[0] x to[1]. A square number
// of places is taken to lie on a square map, as those of all published models do.
bool OfAnotherMap(int64_t places, const std::array<int64_t, 2>& to);

// `stored` FP32 [1, prefix_tokens + h*w, channels] of a square map h = w, as timm's
// resample_abs_pos_embed resizes it: prefix tokens as they are, the map bicubic with antialiasing.
// Returns [1, prefix_tokens + to[0]*to[1], channels]; `stored` itself where it is of such a map
// already, or not that of a square one.
at::Tensor ResizePositionEmbedding(const at::Tensor& stored, int64_t prefix_tokens,
                                   const std::array<int64_t, 2>& to);

// The same of a map `stored` FP32 [1, channels, h, w]: returns [1, channels, to[0], to[1]].
at::Tensor ResizePositionMap(const at::Tensor& stored, const std::array<int64_t, 2>& to);

// Computed ones, Vaswani et al. 2017, section 3.5: FP32 [1, tokens, channels], sines in the even
// channels and cosines in the odd ones, of wavelengths from 2 pi to 10000 * 2 pi.
at::Tensor SinusoidPositions(int64_t tokens, int64_t channels);

}  // namespace fovea::models
