// The implementations behind RpCpe. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities RpCpeCapabilities();

// What every implementation is given.
struct RpCpeInputs {
  at::Tensor x;        // [B, C, H, W], strides free
  at::Tensor weights;  // [branches, C, 3, 3], fp32 or x's type
  at::Tensor biases;   // [branches, C], likewise
  bool gelu = false;   // of what is summed, before it is rounded; only RpCpeCpu knows it
};

// The definition, in plain ATen: any device, any floating type, differentiable.
at::Tensor RpCpeReference(const RpCpeInputs& in);

// fp32 and bf16 on a processor with AVX2.
// `output`: [B, C, H, W], channels-last where x.stride(1) is 1, else contiguous; not empty.
void RpCpeCpu(const RpCpeInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of x's device, without waiting for it. Only in builds
// with nvcc (FOVEA_KERNELS_CUDA).
void RpCpeCuda(const RpCpeInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
