// A 3x3 convolution of stride 1 and padding 1 with fewer multiplications: Winograd's F(2x2, 3x3).
//   Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016), section 4.1.
//   16 multiplications for the 36 of four outputs, and additions instead; fp32 on the CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// Whether Winograd3x3 takes maps FP32 [N, in, height, width] on this machine: with AVX2, `in` a
// multiple of 16, `in` and `out` at least 32, at least 64 tiles of 2x2 outputs. Does not depend on
// N: an image's result does not depend on the others of its batch.
bool Winograd3x3Takes(int64_t in, int64_t out, int64_t height, int64_t width);

// weight: FP32 [out, in, 3, 3]. Returns it transformed (G g G^T), as Winograd3x3 reads it: FP32
// [ceil(out / 32), 16, in, 32], the missing outputs of the last panel zero. Throws c10::Error for
// any other type or shape.
at::Tensor PackWinograd3x3(const at::Tensor& weight);

// map: FP32 [N, in, height, width] on the CPU, for which Winograd3x3Takes is true; read in place
// where its channels are contiguous, else copied. packed: PackWinograd3x3's of weights [out, in, 3,
// 3]. bias: FP32 [out], or none. Returns [N, out, height, width], channels-last; not
// differentiable. Differs from the direct sum by a few times 2^-24 of the largest sum of absolute
// products in the map; infinite inputs may give NaN. Throws c10::Error where the contract is
// broken.
at::Tensor Winograd3x3(const at::Tensor& map, const at::Tensor& packed,
                       const std::optional<at::Tensor>& bias, int64_t out);

}  // namespace fovea::kernels
