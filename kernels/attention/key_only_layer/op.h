// The layer around key-only attention: projections in and out, folded together where that pays.
//   LinGlo (Rethinking Query-Key Pairwise Interactions in Vision Transformers), equations 2 to 4.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace fovea::kernels {

// The layer's parameters, in torch.nn.Linear's layout: weights [C, C] (out, in), biases [C].
struct KeyOnlyWeights {
  at::Tensor key_weight;
  std::optional<at::Tensor> key_bias;
  at::Tensor value_weight;
  std::optional<at::Tensor> value_bias;
  at::Tensor saliency;  // [H, D] with H * D = C: gives the number of heads
  at::Tensor u1_weight;
  std::optional<at::Tensor> u1_bias;
  at::Tensor u2_weight;
  std::optional<at::Tensor> u2_bias;
};

// Y = ((G * V) U_1 + K) U_2, where K and V are projections of x, G * V is KeyOnlyAttention of their
// heads (../key_only_attention/op.h) with its heads concatenated, and each projection adds its
// bias.
//
// x: [B, N, C], no dimension but B empty; batches and tokens may be strided, channels are
//   contiguous. All parameters have x's type and device. fp32 and bf16 run fast on the CPU; fp32,
//   bf16 and fp16 on CUDA; what else there is runs on the reference, the definition step by step.
// scale: finite; 1/sqrt(D) if not given.
// folded: what FoldKeyOnlyWeights makes of the same `weights`. Products of the parameters
//   alone: given them, a call need not work them out. They change nothing but speed and rounding;
//   that they belong to these weights is the caller's promise.
//
// Returns [B, N, C] in x's type, contiguous.
// A call takes the way to Y that was measured to be fastest for its shape (path.h); their results
//   differ by rounding alone.
// Differentiable in x and the weights (twice); `folded` counts as constant.
// Goes through the dispatcher, as torch.ops.fovea.key_only_layer. FOVEA_FORCE_KERNEL (dispatch.h)
//   picks the implementation.
// Throws c10::Error naming the argument and its value where the contract is broken.
at::Tensor KeyOnlyLayer(const at::Tensor& x, const KeyOnlyWeights& weights,
                        std::optional<double> scale = std::nullopt,
                        const std::optional<std::vector<at::Tensor>>& folded = std::nullopt);

// For KeyOnlyLayer's `folded`; to be called once, when a model's weights are final. Also
// torch.ops.fovea.fold_key_only_weights. Throws as KeyOnlyLayer.
std::vector<at::Tensor> FoldKeyOnlyWeights(const KeyOnlyWeights& weights);

}  // namespace fovea::kernels
