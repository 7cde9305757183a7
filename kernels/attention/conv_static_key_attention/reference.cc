#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"

namespace fovea::kernels {

at::Tensor ConvStaticKeyAttentionReference(const ConvStaticKeyAttentionInputs& in) {
  const at::ScalarType accumulate = LogitType(in.query);
  const at::Tensor query = in.query.to(accumulate);
  const at::Tensor weight = in.weight.to(accumulate);
  const auto bias = in.bias ? std::optional(in.bias->to(accumulate)) : std::nullopt;
  const int64_t batch = query.size(0), heads = query.size(1), dim = query.size(3);
  const int64_t positions = in.grid[0] * in.grid[1];
  const int64_t prefix = query.size(2) - positions;

  // The logits [B, heads, n, M] of the map of a grid, all heads in one grouped convolution.
  const auto convolve = [&](const at::Tensor& tokens, int64_t height, int64_t width) {
    const at::Tensor map = tokens.transpose(-2, -1).reshape({batch, heads * dim, height, width});
    return at::conv2d(map, weight, bias, /*stride=*/1, /*padding=*/1, /*dilation=*/1,
                      /*groups=*/heads)
        .reshape({batch, heads, positions, height * width})
        .transpose(-2, -1);
  };
  at::Tensor logits = convolve(query.narrow(2, prefix, positions), in.grid[0], in.grid[1]);
  if (in.cls_key) {
    logits = at::cat({convolve(query.narrow(2, 0, 1), 1, 1), logits}, 2);
    logits = at::cat({at::matmul(query, in.cls_key->to(accumulate).mT()), logits}, 3);
  }
  return at::matmul(ApplyActivation(in.activation, logits * in.scale), in.value.to(accumulate))
      .to(in.query.scalar_type());
}

}  // namespace fovea::kernels
