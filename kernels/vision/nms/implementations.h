// The implementations behind NmsKeep. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities NmsCapabilities();

// What every implementation is given.
struct NmsInputs {
  at::Tensor boxes;  // [N, 4] in the order in which they are taken, contiguous, fp32 or fp64
  double iou;        // finite
};

// The definition, in plain ATen: any device. N x N buffers.
at::Tensor NmsReference(const NmsInputs& in);

// On a processor with AVX2. `keep`: bool [N], contiguous, N > 0.
void NmsCpu(const NmsInputs& in, const at::Tensor& keep);

// On the current stream of boxes' device, without waiting for it. N * N / 8 bytes of scratch. Only
// in builds with nvcc (FOVEA_KERNELS_CUDA).
void NmsCuda(const NmsInputs& in, const at::Tensor& keep);

}  // namespace fovea::kernels
