// The implementations behind CrissCrossAttention. op.cc has checked the contract before it calls
// one.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities CrissCrossAttentionCapabilities();

// What every implementation is given.
struct CrissCrossAttentionInputs {
  at::Tensor query;  // [B, heads, H, W, D], last dimension contiguous
  at::Tensor key;    // likewise
  at::Tensor value;  // likewise
  double scale;      // finite
};

// The definition, in plain ATen: any device, any floating type, differentiable. Holds H + W logits
// for each position.
at::Tensor CrissCrossAttentionReference(const CrissCrossAttentionInputs& in);

// fp32 and bf16 on a processor with AVX2.
// `output`: as query, contiguous last dimension, other strides free; not empty.
void CrissCrossAttentionCpu(const CrissCrossAttentionInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Only in
// builds with nvcc (FOVEA_KERNELS_CUDA).
void CrissCrossAttentionCuda(const CrissCrossAttentionInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
