// The implementations behind DenseAttention. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/attention/shared/attention_way.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities DenseAttentionCapabilities();

// What every implementation is given.
struct DenseAttentionInputs {
  at::Tensor query;                // [B, H, Nq, D], last dimension contiguous
  at::Tensor key;                  // [B, H, Nk, D], likewise
  at::Tensor value;                // [B, H, Nk, D], likewise
  double scale;                    // finite
  std::optional<at::Tensor> bias;  // expanded to [B, H, Nq, Nk]: strides of broadcast dimensions 0
};

// The definition, in plain ATen: any device, any floating type, differentiable. N x N buffers.
at::Tensor DenseAttentionReference(const DenseAttentionInputs& in);

// The faster one for tensors of this type and so many keys (kernels/choice, the questions
// "dense_attention_fp32_n64", "_n256", "_n1024" and those of bf16: "panels" or "tiles"). Each is
// asked once (kernels/choice/cached_answer.h).
AttentionWay FastestDenseAttentionWay(c10::ScalarType type, int64_t keys);

// fp32 and bf16 on a processor with AVX2. Bias in fp32.
// `output`: [B, H, Nq, D] with a contiguous last dimension, other strides free; not empty.
void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output);
// The same in a given way: by panels what tiles do not take (cpu_tiles.h).
void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output, AttentionWay way);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Bias in
// fp32. Only in builds with nvcc (FOVEA_KERNELS_CUDA).
void DenseAttentionKernel(const DenseAttentionInputs& in, const at::Tensor& output);

// The same by DenseAttentionKernel or, where that was measured to be faster, by torch. Returns
// `output`, or a tensor that torch has made and that lies in memory alike. Waits for the device
// where it measures.
at::Tensor DenseAttentionCuda(const DenseAttentionInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
