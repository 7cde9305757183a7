#include "kernels/attention/criss_cross_attention/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

#include "kernels/attention/criss_cross_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "criss_cross_attention";

void CheckContract(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   std::optional<double> scale) {
  const Contract contract(kOp);
  CheckMaps(contract, query, key, value);
  if (scale) contract.IsFinite("scale", *scale);
}

at::Tensor Compute(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   std::optional<double> scale) {
  CheckContract(query, key, value, scale);
  at::Tensor output = EmptyMap(query);
  if (output.numel() == 0) return output;
  const CrissCrossAttentionInputs in{query, key, value, ScaleOrDefault(scale, query)};
  switch (ChooseImplementation(CrissCrossAttentionCapabilities(), query.device().type(),
                               query.scalar_type())) {
    case Implementation::kReference:
      output.copy_(CrissCrossAttentionReference(in));
      break;
    case Implementation::kCpu:
      CrissCrossAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
      FOVEA_CUDA_ONLY(CrissCrossAttentionCuda(in, output));
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                std::optional<double> scale) {
  CheckContract(query, key, value, scale);
  return EmptyMap(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    std::optional<double> scale) {
  return ApplyWithReferenceGradient(
      {query, key, value},
      {.forward =
           [=](const std::vector<at::Tensor>& t) {
             return CrissCrossAttention(t[0], t[1], t[2], scale);
           },
       .reference =
           [=](const std::vector<at::Tensor>& t) {
             return CrissCrossAttentionReference({t[0], t[1], t[2], ScaleOrDefault(scale, t[0])});
           }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "criss_cross_attention(Tensor query, Tensor key, Tensor value, float? scale=None) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("criss_cross_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("criss_cross_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("criss_cross_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("criss_cross_attention", Autograd); }

}  // namespace

Capabilities CrissCrossAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor CrissCrossAttention(const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, std::optional<double> scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::criss_cross_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(query, key, value, scale);
}

}  // namespace fovea::kernels
