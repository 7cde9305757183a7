#include "kernels/attention/dense_attention/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "dense_attention";

void CheckContract(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  const Contract contract(kOp);
  CheckTokenSets(contract, query, key, value);
  if (scale) contract.IsFinite("scale", *scale);
  CheckLogitBias(contract, bias, query, key);
}

DenseAttentionInputs MakeInputs(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, std::optional<double> scale,
                                const std::optional<at::Tensor>& bias, bool bias_in_fp32) {
  return {query, key, value, ScaleOrDefault(scale, query),
          ExpandLogitBias(bias, query, key, bias_in_fp32)};
}

at::Tensor Compute(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  CheckContract(query, key, value, scale, bias);
  at::Tensor output = EmptyTokens(query);
  if (output.numel() == 0) return output;
  const Implementation chosen = ChooseImplementation(DenseAttentionCapabilities(),
                                                     query.device().type(), query.scalar_type());
  const bool reference = chosen == Implementation::kReference;
  const DenseAttentionInputs in = MakeInputs(query, key, value, scale, bias, !reference);
  switch (chosen) {
    case Implementation::kReference:
      output.copy_(DenseAttentionReference(in));
      break;
    case Implementation::kCpu:
      DenseAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
      FOVEA_CUDA_ONLY(output = DenseAttentionCuda(in, output));
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  CheckContract(query, key, value, scale, bias);
  return EmptyTokens(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  const OptionalTensors tensors({query, key, value, bias});
  return ApplyWithReferenceGradient(
      tensors.given(), {.forward =
                            [=](const std::vector<at::Tensor>& given) {
                              const OptionalTensors::List t = tensors.InPlaces(given);
                              return DenseAttention(*t[0], *t[1], *t[2], scale, t[3]);
                            },
                        .reference =
                            [=](const std::vector<at::Tensor>& given) {
                              const OptionalTensors::List t = tensors.InPlaces(given);
                              return DenseAttentionReference(MakeInputs(
                                  *t[0], *t[1], *t[2], scale, t[3], /*bias_in_fp32=*/false));
                            }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "dense_attention(Tensor query, Tensor key, Tensor value, float? scale=None, "
      "Tensor? bias=None) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("dense_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("dense_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("dense_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("dense_attention", Autograd); }

}  // namespace

Capabilities DenseAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor DenseAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::dense_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(query, key, value, scale, bias);
}

}  // namespace fovea::kernels
