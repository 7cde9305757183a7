#include "kernels/attention/static_key_attention/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "kernels/attention/shared/token_sets.h"
#include "kernels/attention/static_key_attention/implementations.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "static_key_attention";

Activation CheckContract(const at::Tensor& query, const at::Tensor& static_key,
                         const at::Tensor& value, std::string_view activation,
                         std::optional<double> scale, double activation_scale,
                         double activation_bias) {
  const Contract contract(kOp);
  const Contract::Argument q{"query", query}, k{"static_key", static_key}, v{"value", value};
  CheckTokenSetLike(contract, q, query);
  contract.HasRank(k, 3, "[heads, keys, head_dim]");
  contract.HasTypeAndDeviceOf(k, q);
  contract.IsNotEmpty(k, 1, "key");
  contract.IsContiguousInLastDim(k);
  CheckTokenSetLike(contract, v, query);
  contract.HasShape(k, {{query.sym_size(1), value.sym_size(2), query.sym_size(3)}},
                    "[query's heads, value's tokens, head_dim]");
  if (scale) contract.IsFinite("scale", *scale);
  return CheckedActivation(contract, activation, activation_scale, activation_bias);
}

at::Tensor Compute(const at::Tensor& query, const at::Tensor& static_key, const at::Tensor& value,
                   std::string_view activation, std::optional<double> scale,
                   double activation_scale, double activation_bias) {
  const StaticKeyAttentionInputs in{
      query, static_key, value,
      CheckContract(query, static_key, value, activation, scale, activation_scale, activation_bias),
      ScaleOrDefault(scale, query)};
  at::Tensor output = EmptyTokens(query);
  if (output.numel() == 0) return output;
  switch (ChooseImplementation(StaticKeyAttentionCapabilities(), query.device().type(),
                               query.scalar_type())) {
    case Implementation::kReference:
      output.copy_(StaticKeyAttentionReference(in));
      break;
    case Implementation::kCpu:
      StaticKeyAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
      FOVEA_CUDA_ONLY(StaticKeyAttentionCuda(in, output));
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& static_key, const at::Tensor& value,
                std::string_view activation, std::optional<double> scale, double activation_scale,
                double activation_bias) {
  CheckContract(query, static_key, value, activation, scale, activation_scale, activation_bias);
  return EmptyTokens(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& static_key, const at::Tensor& value,
                    std::string_view activation, std::optional<double> scale,
                    double activation_scale, double activation_bias) {
  const Activation checked =
      CheckContract(query, static_key, value, activation, scale, activation_scale, activation_bias);
  return ApplyWithReferenceGradient(
      {query, static_key, value},
      {.forward =
           [=, name = std::string(activation)](const std::vector<at::Tensor>& t) {
             return StaticKeyAttention(t[0], t[1], t[2], name, scale, activation_scale,
                                       activation_bias);
           },
       .reference =
           [=](const std::vector<at::Tensor>& t) {
             return StaticKeyAttentionReference(
                 {t[0], t[1], t[2], checked, ScaleOrDefault(scale, t[0])});
           }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "static_key_attention(Tensor query, Tensor static_key, Tensor value, "
      "str activation=\"softmax\", float? scale=None, float activation_scale=1.0, "
      "float activation_bias=0.0) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("static_key_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("static_key_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("static_key_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("static_key_attention", Autograd); }

}  // namespace

Capabilities StaticKeyAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor StaticKeyAttention(const at::Tensor& query, const at::Tensor& static_key,
                              const at::Tensor& value, std::string_view activation,
                              std::optional<double> scale, double activation_scale,
                              double activation_bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::static_key_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(query, static_key, value, activation, scale, activation_scale, activation_bias);
}

}  // namespace fovea::kernels
