// The implementations behind ConvStaticKeyAttention. op.cc has checked the contract before it calls
// one.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/attention/shared/activation.h"
#include "kernels/attention/shared/attention_way.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities ConvStaticKeyAttentionCapabilities();

// What every implementation is given. M = grid[0] * grid[1]; tokens = M, or 1 + M with cls_key.
struct ConvStaticKeyAttentionInputs {
  at::Tensor query;                   // [B, H, tokens, D], last dimension contiguous
  at::Tensor value;                   // likewise
  std::array<int64_t, 2> grid;        // (height, width)
  at::Tensor weight;                  // [H*M, D, 3, 3]
  std::optional<at::Tensor> bias;     // [H*M]
  std::optional<at::Tensor> cls_key;  // [H, 1, D]
  Activation activation;
  double scale;  // finite
};

// The definition, in plain ATen: any device, any floating type, differentiable. Holds all logits.
at::Tensor ConvStaticKeyAttentionReference(const ConvStaticKeyAttentionInputs& in);

// The faster one for tensors of this type (kernels/choice, the questions
// "conv_static_key_attention_fp32_n256" and that of bf16: "panels" or "tiles"). Each is asked once.
AttentionWay FastestConvStaticKeyWay(c10::ScalarType type);

// fp32 and bf16 on a processor with AVX2.
// `output`: as query, contiguous last dimension, other strides free; not empty.
void ConvStaticKeyAttentionCpu(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output);
// The same in a given way: by panels what tiles do not take, which is other activations than
// softmax, a class token, weights without channels last, and keys that are too long or too many
// (cpu_tiles.h).
void ConvStaticKeyAttentionCpu(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output,
                               AttentionWay way);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Only in
// builds with nvcc (FOVEA_KERNELS_CUDA).
void ConvStaticKeyAttentionCuda(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
