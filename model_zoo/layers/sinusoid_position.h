// Position embeddings that are computed, not learned.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::models {

// Vaswani et al. 2017, section 3.5: FP32 [1, tokens, channels], sines in the even channels and
// cosines in the odd ones, of wavelengths from 2 pi to 10000 * 2 pi.
at::Tensor SinusoidPositions(int64_t tokens, int64_t channels);

}  // namespace fovea::models
