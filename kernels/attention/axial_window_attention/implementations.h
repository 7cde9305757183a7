// The implementations behind AxialWindowAttention. op.cc has checked the contract before it calls
// one.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities AxialWindowAttentionCapabilities();

// What every implementation is given.
struct AxialWindowAttentionInputs {
  at::Tensor query;                        // [B, heads, H, W, D], last dimension contiguous
  at::Tensor key;                          // likewise
  at::Tensor value;                        // likewise
  int64_t window;                          // >= 1
  int64_t shift;                           // in [0, window)
  double scale;                            // finite
  std::optional<at::Tensor> bias_rows;     // [heads/4, W, W]
  std::optional<at::Tensor> bias_columns;  // [heads/4, H, H]
  std::optional<at::Tensor> bias_window;   // [heads/2, w*w, w*w]
  std::optional<at::Tensor> pad_key;       // [heads/2, D]
  std::optional<at::Tensor> pad_value;     // [heads/2, D]
};

// The definition, in plain ATen: any device, any floating type, differentiable. Holds the logits of
// all rows, columns and windows.
at::Tensor AxialWindowAttentionReference(const AxialWindowAttentionInputs& in);

// fp32 and bf16 on a processor with AVX2. Biases in fp32.
// `output`: as query, contiguous last dimension, other strides free; not empty.
void AxialWindowAttentionCpu(const AxialWindowAttentionInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of query's device, without waiting for it. Biases in
// fp32. Only in builds with nvcc (FOVEA_KERNELS_CUDA).
void AxialWindowAttentionCuda(const AxialWindowAttentionInputs& in, const at::Tensor& output);

}  // namespace fovea::kernels
