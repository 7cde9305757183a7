// The implementations behind KeyOnlyLayer. op.cc has checked the contract before it calls one.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/attention/key_only_layer/folded_weights.h"
#include "kernels/attention/key_only_layer/op.h"
#include "kernels/attention/key_only_layer/path.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {

// Where which implementation runs.
Capabilities KeyOnlyLayerCapabilities();

// What every implementation is given.
struct KeyOnlyLayerInputs {
  at::Tensor x;  // [B, N, C], not empty, last dimension contiguous
  KeyOnlyWeights weights;
  double scale;                                // finite
  std::optional<FoldedKeyOnlyWeights> folded;  // of these weights
};

// The definition, in plain ATen: any device, any floating type, differentiable.
at::Tensor KeyOnlyLayerReference(const KeyOnlyLayerInputs& in);

// fp32 and bf16 on a processor with AVX2; fp32, bf16 and fp16 on CUDA, in builds with nvcc, on the
// current stream and without waiting for it. By the path that is fastest for its shape:
at::Tensor KeyOnlyLayerFast(const KeyOnlyLayerInputs& in);
// and by a given one.
at::Tensor KeyOnlyLayerFast(const KeyOnlyLayerInputs& in, KeyOnlyPath path);

}  // namespace fovea::kernels
