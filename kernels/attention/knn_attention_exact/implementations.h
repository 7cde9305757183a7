// The implementations behind KnnAttentionExact. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities KnnAttentionExactCapabilities();

// What every implementation is given: what the fast version is.
using KnnAttentionExactInputs = KnnAttentionInputs;

// The definition, in plain ATen: any device, any floating type, differentiable. N x N buffers.
at::Tensor KnnAttentionExactReference(const KnnAttentionExactInputs& in);

// fp32 and bf16 on a processor with AVX2. Bias in fp32.
// `output`: [B, H, Nq, D] with a contiguous last dimension, other strides free; not empty.
void KnnAttentionExactCpu(const KnnAttentionExactInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Bias in
// fp32. Only in builds with nvcc (FOVEA_KERNELS_CUDA).
void KnnAttentionExactCuda(const KnnAttentionExactInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
