// A 3x3 convolution of stride 1 and padding 1 with fewer multiplications: Winograd's F(2x2, 3x3).
//   Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR 2016), section 4.1.
//   16 multiplications for the 36 of four outputs, and additions instead; fp32 on the CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace fovea::kernels {

// Whether maps of FP32 [N, in, height, width] are convolved here: on this machine, with channels in
// whole vectors, and enough of them that transforming the maps is worth it. Where the direct
// algorithm is as fast, small maps among them, it says no. Does not depend on N, so that an image's
// result does not depend on its neighbours.
bool Conv3x3Runs(int64_t in, int64_t out, int64_t height, int64_t width);

// Weights [out, in, 3, 3] of FP32 as Conv3x3 reads them: transformed, 16 for each nine, in panels.
at::Tensor PackConv3x3(const at::Tensor& weight);

// map [N, in, height, width] of FP32, of which Conv3x3Runs; packed: PackConv3x3's; bias [out] or
// none. [N, out, height, width], channels-last. Within a few roundings of the direct sum.
// Throws c10::Error where the contract is broken.
at::Tensor Conv3x3(const at::Tensor& map, const at::Tensor& packed,
                   const std::optional<at::Tensor>& bias, int64_t out);

}  // namespace fovea::kernels
