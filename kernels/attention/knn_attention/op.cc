#include "kernels/attention/knn_attention/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "knn_attention";

at::Tensor Compute(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   int64_t topk, std::optional<double> scale,
                   const std::optional<at::Tensor>& bias) {
  CheckKnnAttention(kOp, query, key, value, topk, scale, bias);
  at::Tensor output = EmptyTokens(query);
  if (output.numel() == 0) return output;
  const Implementation chosen =
      ChooseImplementation(KnnAttentionCapabilities(), query.device().type(), query.scalar_type());
  const bool reference = chosen == Implementation::kReference;
  const KnnAttentionInputs in =
      MakeKnnAttentionInputs(query, key, value, topk, scale, bias, !reference);
  switch (chosen) {
    case Implementation::kReference:
      output.copy_(KnnAttentionReference(in));
      break;
    case Implementation::kCpu:
      KnnAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
      FOVEA_CUDA_ONLY(KnnAttentionCuda(in, output));
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                int64_t topk, std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  CheckKnnAttention(kOp, query, key, value, topk, scale, bias);
  return EmptyTokens(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    int64_t topk, std::optional<double> scale,
                    const std::optional<at::Tensor>& bias) {
  const OptionalTensors tensors({query, key, value, bias});
  return ApplyWithReferenceGradient(
      tensors.given(), {.forward =
                            [=](const std::vector<at::Tensor>& given) {
                              const OptionalTensors::List t = tensors.InPlaces(given);
                              return KnnAttention(*t[0], *t[1], *t[2], topk, scale, t[3]);
                            },
                        .reference =
                            [=](const std::vector<at::Tensor>& given) {
                              const OptionalTensors::List t = tensors.InPlaces(given);
                              return KnnAttentionReference(MakeKnnAttentionInputs(
                                  *t[0], *t[1], *t[2], topk, scale, t[3], /*bias_in_fp32=*/false));
                            }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "knn_attention(Tensor query, Tensor key, Tensor value, int topk, float? scale=None, "
      "Tensor? bias=None) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("knn_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("knn_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("knn_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("knn_attention", Autograd); }

}  // namespace

void CheckKnnAttention(std::string_view op, const at::Tensor& query, const at::Tensor& key,
                       const at::Tensor& value, int64_t topk, std::optional<double> scale,
                       const std::optional<at::Tensor>& bias) {
  const Contract contract(op);
  CheckTokenSets(contract, query, key, value);
  contract.IsWithin("topk", topk, 1, key.sym_size(2), "key's tokens");
  if (scale) contract.IsFinite("scale", *scale);
  CheckLogitBias(contract, bias, query, key);
}

KnnAttentionInputs MakeKnnAttentionInputs(const at::Tensor& query, const at::Tensor& key,
                                          const at::Tensor& value, int64_t topk,
                                          std::optional<double> scale,
                                          const std::optional<at::Tensor>& bias,
                                          bool bias_in_fp32) {
  return {query,
          key,
          value,
          topk,
          ScaleOrDefault(scale, query),
          ExpandLogitBias(bias, query, key, bias_in_fp32)};
}

Capabilities KnnAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor KnnAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        int64_t topk, std::optional<double> scale,
                        const std::optional<at::Tensor>& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::knn_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(query, key, value, topk, scale, bias);
}

}  // namespace fovea::kernels
