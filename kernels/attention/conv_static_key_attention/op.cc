#include "kernels/attention/conv_static_key_attention/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "conv_static_key_attention";

using OptionalTensor = std::optional<at::Tensor>;

Activation CheckContract(const at::Tensor& query, const at::Tensor& value, at::IntArrayRef grid,
                         const at::Tensor& weight, const OptionalTensor& bias,
                         const OptionalTensor& cls_key, std::string_view activation,
                         std::optional<double> scale, double activation_scale,
                         double activation_bias) {
  const Contract contract(kOp);
  const Contract::Argument q{"query", query}, v{"value", value}, w{"weight", weight};
  CheckTokenSetLike(contract, q, query);
  CheckTokenSetLike(contract, v, query);
  contract.HasSizeOf(v, q, 2, "token count");
  contract.HasLength("grid", grid, 2);
  constexpr int64_t kLargestSide = 1 << 15;  // the map's positions are still a token count
  for (const int64_t side : grid)
    contract.IsWithin("grid", side, 1, kLargestSide, "the largest supported");
  const int64_t positions = grid[0] * grid[1];
  contract.HasCount(q, 2, positions + (cls_key ? 1 : 0),
                    cls_key ? "tokens, one for the class and the grid's" : "tokens, the grid's");
  const c10::SymInt channels = query.sym_size(1) * positions;
  contract.HasRank(w, 4, "[heads * positions, head_dim, 3, 3]");
  contract.HasTypeAndDeviceOf(w, q);
  contract.HasShape(w, {{channels, query.sym_size(3), 3, 3}},
                    "[heads * positions, head_dim, 3, 3]");
  if (bias) {
    contract.HasRank({"bias", *bias}, 1, "[heads * positions]");
    contract.HasTypeAndDeviceOf({"bias", *bias}, q);
    contract.HasShape({"bias", *bias}, {{channels}}, "[heads * positions]");
  }
  if (cls_key) {
    contract.HasRank({"cls_key", *cls_key}, 3, "[heads, 1, head_dim]");
    contract.HasTypeAndDeviceOf({"cls_key", *cls_key}, q);
    contract.HasShape({"cls_key", *cls_key}, {{query.sym_size(1), 1, query.sym_size(3)}},
                      "[heads, 1, head_dim]");
  }
  if (scale) contract.IsFinite("scale", *scale);
  return CheckedActivation(contract, activation, activation_scale, activation_bias);
}

at::Tensor Compute(const at::Tensor& query, const at::Tensor& value, at::IntArrayRef grid,
                   const at::Tensor& weight, const OptionalTensor& bias,
                   const OptionalTensor& cls_key, std::string_view activation,
                   std::optional<double> scale, double activation_scale, double activation_bias) {
  const Activation checked = CheckContract(query, value, grid, weight, bias, cls_key, activation,
                                           scale, activation_scale, activation_bias);
  const ConvStaticKeyAttentionInputs in{query,   value,   {grid[0], grid[1]},          weight, bias,
                                        cls_key, checked, ScaleOrDefault(scale, query)};
  at::Tensor output = EmptyTokens(query);
  if (output.numel() == 0) return output;
  switch (ChooseImplementation(ConvStaticKeyAttentionCapabilities(), query.device().type(),
                               query.scalar_type())) {
    case Implementation::kReference:
      output.copy_(ConvStaticKeyAttentionReference(in));
      break;
    case Implementation::kCpu:
      ConvStaticKeyAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
      FOVEA_CUDA_ONLY(ConvStaticKeyAttentionCuda(in, output));
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& value, at::IntArrayRef grid,
                const at::Tensor& weight, const OptionalTensor& bias, const OptionalTensor& cls_key,
                std::string_view activation, std::optional<double> scale, double activation_scale,
                double activation_bias) {
  CheckContract(query, value, grid, weight, bias, cls_key, activation, scale, activation_scale,
                activation_bias);
  return EmptyTokens(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& value, at::IntArrayRef grid,
                    const at::Tensor& weight, const OptionalTensor& bias,
                    const OptionalTensor& cls_key, std::string_view activation,
                    std::optional<double> scale, double activation_scale, double activation_bias) {
  const Activation checked = CheckContract(query, value, grid, weight, bias, cls_key, activation,
                                           scale, activation_scale, activation_bias);
  const OptionalTensors tensors({query, value, weight, bias, cls_key});
  return ApplyWithReferenceGradient(
      tensors.given(),
      {.forward =
           [=, grid = grid.vec(),
            name = std::string(activation)](const std::vector<at::Tensor>& given) {
             const OptionalTensors::List t = tensors.InPlaces(given);
             return ConvStaticKeyAttention(*t[0], *t[1], grid, *t[2], t[3], t[4], name, scale,
                                           activation_scale, activation_bias);
           },
       .reference =
           [=,
            grid = std::array<int64_t, 2>{grid[0], grid[1]}](const std::vector<at::Tensor>& given) {
             const OptionalTensors::List t = tensors.InPlaces(given);
             return ConvStaticKeyAttentionReference(
                 {*t[0], *t[1], grid, *t[2], t[3], t[4], checked, ScaleOrDefault(scale, *t[0])});
           }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "conv_static_key_attention(Tensor query, Tensor value, int[2] grid, Tensor weight, "
      "Tensor? bias=None, Tensor? cls_key=None, str activation=\"softmax\", float? scale=None, "
      "float activation_scale=1.0, float activation_bias=0.0) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("conv_static_key_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("conv_static_key_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("conv_static_key_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("conv_static_key_attention", Autograd); }

}  // namespace

Capabilities ConvStaticKeyAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor ConvStaticKeyAttention(const at::Tensor& query, const at::Tensor& value,
                                  at::IntArrayRef grid, const at::Tensor& weight,
                                  const OptionalTensor& bias, const OptionalTensor& cls_key,
                                  std::string_view activation, std::optional<double> scale,
                                  double activation_scale, double activation_bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::conv_static_key_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(query, value, grid, weight, bias, cls_key, activation, scale, activation_scale,
                 activation_bias);
}

}  // namespace fovea::kernels
