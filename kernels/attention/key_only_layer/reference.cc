#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/attention/key_only_attention/implementations.h"
#include "kernels/attention/key_only_layer/implementations.h"

namespace fovea::kernels {

at::Tensor KeyOnlyLayerReference(const KeyOnlyLayerInputs& in) {
  const KeyOnlyWeights& w = in.weights;
  const auto heads_of = [&](const at::Tensor& tokens) {  // [B, N, C] to [B, H, N, D]
    return tokens.unflatten(2, {w.saliency.size(0), w.saliency.size(1)}).transpose(1, 2);
  };
  const at::Tensor key = at::linear(in.x, w.key_weight, w.key_bias);
  const at::Tensor value = at::linear(in.x, w.value_weight, w.value_bias);
  const at::Tensor gated =
      KeyOnlyAttentionReference({heads_of(key), heads_of(value), w.saliency, in.scale});
  const at::Tensor local = at::linear(gated.transpose(1, 2).flatten(2), w.u1_weight, w.u1_bias);
  return at::linear(local + key, w.u2_weight, w.u2_bias);
}

}  // namespace fovea::kernels
