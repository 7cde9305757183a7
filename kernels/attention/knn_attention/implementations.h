// The implementations behind KnnAttention. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/attention/shared/attention_way.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities KnnAttentionCapabilities();

// What every implementation is given.
struct KnnAttentionInputs {
  at::Tensor query;                // [B, H, Nq, D], last dimension contiguous
  at::Tensor key;                  // [B, H, Nk, D], likewise
  at::Tensor value;                // [B, H, Nk, D], likewise
  int64_t topk;                    // in [1, Nk]
  double scale;                    // finite
  std::optional<at::Tensor> bias;  // expanded to [B, H, Nq, Nk]: strides of broadcast dimensions 0
};

// The contract of both k-NN operators: `op` is the one that is called.
void CheckKnnAttention(std::string_view op, const at::Tensor& query, const at::Tensor& key,
                       const at::Tensor& value, int64_t topk, std::optional<double> scale,
                       const std::optional<at::Tensor>& bias);

// From the operator's arguments; the bias in fp32, as the implementations in C++ and CUDA want it,
// or in its own type.
KnnAttentionInputs MakeKnnAttentionInputs(const at::Tensor& query, const at::Tensor& key,
                                          const at::Tensor& value, int64_t topk,
                                          std::optional<double> scale,
                                          const std::optional<at::Tensor>& bias, bool bias_in_fp32);

// The definition, in plain ATen: any device, any floating type, differentiable. N x N buffers.
at::Tensor KnnAttentionReference(const KnnAttentionInputs& in);

// The faster one for tensors of this type and so many keys (kernels/choice, the questions
// "knn_attention_fp32_n256", "_n1024" and those of bf16: "panels" or "tiles"). Each is asked once
// (kernels/choice/cached_answer.h).
AttentionWay FastestKnnAttentionWay(c10::ScalarType type, int64_t keys);

// fp32 and bf16 on a processor with AVX2. Bias in fp32.
// `output`: [B, H, Nq, D] with a contiguous last dimension, other strides free; not empty.
void KnnAttentionCpu(const KnnAttentionInputs& in, const at::Tensor& output);
// The same in a given way: by panels what tiles do not take (cpu_tiles.h).
void KnnAttentionCpu(const KnnAttentionInputs& in, const at::Tensor& output, AttentionWay way);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Bias in
// fp32. Only in builds with nvcc (FOVEA_KERNELS_CUDA).
void KnnAttentionCuda(const KnnAttentionInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
