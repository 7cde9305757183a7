// The implementations behind WindowAttention. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities WindowAttentionCapabilities();

// What every implementation is given.
struct WindowAttentionInputs {
  at::Tensor query;                // [B, heads, H, W, D], last dimension contiguous
  at::Tensor key;                  // likewise
  at::Tensor value;                // likewise
  std::array<int64_t, 2> window;   // (h, w), divides (H, W)
  std::array<int64_t, 2> shift;    // in [0, h) and [0, w)
  double scale;                    // finite
  std::optional<at::Tensor> bias;  // [heads, h*w, h*w]
};

// The definition, in plain ATen: any device, any floating type, differentiable. Holds the logits of
// all windows.
at::Tensor WindowAttentionReference(const WindowAttentionInputs& in);

// fp32 and bf16 on a processor with AVX2. Bias in fp32.
// `output`: as query, contiguous last dimension, other strides free; not empty.
void WindowAttentionCpu(const WindowAttentionInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Bias in
// fp32. Only in builds with nvcc (FOVEA_KERNELS_CUDA).
void WindowAttentionCuda(const WindowAttentionInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
