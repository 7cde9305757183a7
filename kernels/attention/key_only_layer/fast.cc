// Three ways to Y, for the CPU and CUDA alike: the large products are ATen's, the passes over
// tokens are key_only_attention's. path.h says when each is best, folded_weights.h why they are
// equal.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/attention/key_only_attention/implementations.h"
#include "kernels/attention/key_only_layer/implementations.h"

namespace fovea::kernels {
namespace {

at::Tensor HeadsOf(const at::Tensor& tokens, const KeyOnlyLayerInputs& in) {
  const at::Tensor& saliency = in.weights.saliency;
  return tokens.unflatten(2, {saliency.size(0), saliency.size(1)}).transpose(1, 2);
}

at::Tensor Context(const at::Tensor& key, const at::Tensor& saliency, double scale) {
#ifdef FOVEA_KERNELS_CUDA
  if (key.is_cuda()) return KeyOnlyContextCuda(key, saliency, scale);
#endif
  return KeyOnlyContextCpu(key, saliency, scale);
}

// value *= context, where it lies.
void MultiplyBy(const at::Tensor& context, const at::Tensor& value) {
#ifdef FOVEA_KERNELS_CUDA
  if (value.is_cuda()) return KeyOnlyProductCuda(context, value, value);
#endif
  KeyOnlyProductCpu(context, value, value);
}

// Equation 4 as it stands, nothing of it stored twice.
at::Tensor Plain(const KeyOnlyLayerInputs& in) {
  const KeyOnlyWeights& w = in.weights;
  const at::Tensor key = at::linear(in.x, w.key_weight, w.key_bias);
  const at::Tensor value = at::linear(in.x, w.value_weight, w.value_bias);
  MultiplyBy(Context(HeadsOf(key, in), w.saliency, in.scale), HeadsOf(value, in));
  return at::linear(at::linear(value, w.u1_weight, w.u1_bias).add_(key), w.u2_weight, w.u2_bias);
}

// G from x: [B, H, D] in fp32.
at::Tensor ContextWithoutKeys(const KeyOnlyLayerInputs& in, const FoldedKeyOnlyWeights& folded) {
  const at::Tensor every_head =
      in.x.unsqueeze(1).expand({in.x.size(0), folded.gate.size(0), in.x.size(1), in.x.size(2)});
  const at::Tensor mean = Context(every_head, folded.gate, in.scale);  // [B, H, C]
  return at::baddbmm(folded.key_bias, folded.key_weight, mean.permute({1, 2, 0}))
      .permute({2, 0, 1})
      .contiguous();
}

// Y = x W_eff: one product over the tokens, and one of C^3 for each image. In x's type throughout,
// each product summed in fp32: W_eff ends as a factor in that type in any case.
at::Tensor Folded(const KeyOnlyLayerInputs& in, const FoldedKeyOnlyWeights& folded) {
  const int64_t batch = in.x.size(0);
  const int64_t channels = in.x.size(2);
  const at::Tensor context = ContextWithoutKeys(in, folded).view({batch, 1, channels});
  at::Tensor gated = at::empty({batch, channels + 1, channels}, in.x.options());
  at::Tensor effective = at::empty({batch, channels + 1, channels}, in.x.options());
  at::mul_out(gated, folded.value, context);
  effective.copy_(folded.direct);
  effective.view({-1, channels}).addmm_(gated.view({-1, channels}), folded.product);
  return at::baddbmm(effective.narrow(1, channels, 1), in.x, effective.narrow(1, 0, channels));
}

// Y = (G * V) U_1 U_2 + x W_k U_2: three products over the tokens instead of four, none per image.
at::Tensor HalfFolded(const KeyOnlyLayerInputs& in, const FoldedKeyOnlyWeights& folded) {
  const KeyOnlyWeights& w = in.weights;
  const int64_t channels = in.x.size(2);
  const at::Tensor value = at::linear(in.x, w.value_weight, w.value_bias);
  MultiplyBy(ContextWithoutKeys(in, folded), HeadsOf(value, in));
  const at::Tensor rows = in.x.reshape({-1, channels});
  at::Tensor output =
      at::addmm(folded.direct[channels], rows, folded.direct.narrow(0, 0, channels));
  return output.addmm_(value.view({-1, channels}), folded.product).view(in.x.sizes());
}

}  // namespace

at::Tensor KeyOnlyLayerFast(const KeyOnlyLayerInputs& in, KeyOnlyPath path) {
  if (path == KeyOnlyPath::kPlain) return Plain(in);
  const FoldedKeyOnlyWeights folded = in.folded ? *in.folded : Fold(in.weights);
  return path == KeyOnlyPath::kFolded ? Folded(in, folded) : HalfFolded(in, folded);
}

at::Tensor KeyOnlyLayerFast(const KeyOnlyLayerInputs& in) {
  return KeyOnlyLayerFast(in, FastestKeyOnlyPath({.tokens = in.x.size(1),
                                                  .channels = in.x.size(2),
                                                  .heads = in.weights.saliency.size(0),
                                                  .type = in.x.scalar_type(),
                                                  .device = in.x.device(),
                                                  .prepared = in.folded.has_value()}));
}

}  // namespace fovea::kernels
