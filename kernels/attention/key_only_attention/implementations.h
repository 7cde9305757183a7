// The implementations behind KeyOnlyAttention. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities KeyOnlyAttentionCapabilities();

// What every implementation is given.
struct KeyOnlyAttentionInputs {
  at::Tensor key;       // [B, H, N, D], last dimension contiguous
  at::Tensor value;     // [B, H, N, D], likewise
  at::Tensor saliency;  // [H, D]
  double scale;         // finite
};

// The definition, in plain ATen: any device, any floating type, differentiable.
at::Tensor KeyOnlyAttentionReference(const KeyOnlyAttentionInputs& in);

// fp32 and bf16 on a processor with AVX2 (simd::kRunsHere).
// `output`: [B, H, N, D] with a contiguous last dimension, other strides free; not empty. It may be
// `value` itself.
void KeyOnlyAttentionCpu(const KeyOnlyAttentionInputs& in, const at::Tensor& output);

// fp32, bf16 and fp16, on the current stream of key's device, without waiting for it. Only in
// builds with nvcc (FOVEA_KERNELS_CUDA). `output` as above.
void KeyOnlyAttentionCuda(const KeyOnlyAttentionInputs& in, const at::Tensor& output);

// The two halves of it, which key_only_layer uses apart.
// The context G in fp32: [B, H, D], contiguous. `key` may be expanded over its heads (stride 0),
// which the CPU then reads once for all of them; `saliency` in key's type or fp32. Neither is
// empty.
at::Tensor KeyOnlyContextCpu(const at::Tensor& key, const at::Tensor& saliency, double scale);
at::Tensor KeyOnlyContextCuda(const at::Tensor& key, const at::Tensor& saliency, double scale);
// output = context * value; `output` as above.
void KeyOnlyProductCpu(const at::Tensor& context, const at::Tensor& value,
                       const at::Tensor& output);
void KeyOnlyProductCuda(const at::Tensor& context, const at::Tensor& value,
                        const at::Tensor& output);

}  // namespace fovea::kernels
