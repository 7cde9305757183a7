// The implementations behind StaticKeyAttention. op.cc has checked the contract before it calls
// one.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/attention/shared/activation.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities StaticKeyAttentionCapabilities();

// What every implementation is given.
struct StaticKeyAttentionInputs {
  at::Tensor query;       // [B, H, Nq, D], last dimension contiguous
  at::Tensor static_key;  // [H, keys, D], likewise
  at::Tensor value;       // [B, H, keys, D], likewise
  Activation activation;
  double scale;  // finite
};

// The definition, in plain ATen: any device, any floating type, differentiable. Holds all logits.
at::Tensor StaticKeyAttentionReference(const StaticKeyAttentionInputs& in);

// fp32 and bf16 on a processor with AVX2.
// `output`: [B, H, Nq, D] with a contiguous last dimension, other strides free; not empty.
void StaticKeyAttentionCpu(const StaticKeyAttentionInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Only in
// builds with nvcc (FOVEA_KERNELS_CUDA).
void StaticKeyAttentionCuda(const StaticKeyAttentionInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
