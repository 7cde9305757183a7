#include "kernels/attention/knn_attention/op.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cmath>
#include <vector>

#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "knn_attention";
constexpr std::string_view kTokens = "[batch, heads, tokens, head_dim]";

void CheckContract(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   int64_t topk, std::optional<double> scale,
                   const std::optional<at::Tensor>& bias) {
  const Contract contract(kOp);
  const Contract::Argument q{"query", query}, k{"key", key}, v{"value", value};
  for (const Contract::Argument& argument : {q, k, v}) {
    contract.HasRank(argument, 4, kTokens);
    contract.IsFloating(argument);
    contract.HasTypeAndDeviceOf(argument, q);
    contract.HasSizeOf(argument, q, 0, "batch size");
    contract.HasSizeOf(argument, q, 1, "head count");
    contract.IsNotEmpty(argument, 2, "token");
    contract.HasSizeOf(argument, q, 3, "head_dim");
    contract.IsNotEmpty(argument, 3, "channel");
    contract.IsContiguousInLastDim(argument);
  }
  contract.HasSizeOf(v, k, 2, "token count");
  contract.IsWithin("topk", topk, 1, key.sym_size(2), "key's tokens");
  if (scale) contract.IsFinite("scale", *scale);
  if (bias) {
    contract.IsBiasOf({"bias", *bias}, q);
    contract.BroadcastsTo(
        {"bias", *bias},
        {{query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)}},
        "[batch, heads, query tokens, key tokens]");
  }
}

at::Tensor AllocateOutput(const at::Tensor& query) {
  return at::empty_symint(
             {query.sym_size(0), query.sym_size(2), query.sym_size(1), query.sym_size(3)},
             query.options())
      .transpose(1, 2);
}

KnnAttentionInputs MakeInputs(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, int64_t topk, std::optional<double> scale,
                              const std::optional<at::Tensor>& bias) {
  KnnAttentionInputs in{query, key, value, topk, 0.0, std::nullopt};
  in.scale = scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(3))));
  if (bias) in.bias = bias->expand({query.size(0), query.size(1), query.size(2), key.size(2)});
  return in;
}

at::Tensor Compute(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   int64_t topk, std::optional<double> scale,
                   const std::optional<at::Tensor>& bias) {
  CheckContract(query, key, value, topk, scale, bias);
  at::Tensor output = AllocateOutput(query);
  if (output.numel() == 0) return output;
  const Implementation chosen =
      ChooseImplementation(KnnAttentionCapabilities(), query.device().type(), query.scalar_type());
  switch (chosen) {
    case Implementation::kReference:
      output.copy_(KnnAttentionReference(MakeInputs(query, key, value, topk, scale, bias)));
      break;
    case Implementation::kCpu:
    case Implementation::kCuda: {
      // Converted before it is expanded: as small as it was given.
      const auto bias_fp32 = bias ? std::optional(bias->to(at::kFloat)) : std::nullopt;
      const KnnAttentionInputs in = MakeInputs(query, key, value, topk, scale, bias_fp32);
      if (chosen == Implementation::kCpu) {
        KnnAttentionCpu(in, output);
      } else {
#ifdef FOVEA_KERNELS_CUDA
        KnnAttentionCuda(in, output);
#endif
      }
      break;
    }
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                int64_t topk, std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  CheckContract(query, key, value, topk, scale, bias);
  return AllocateOutput(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    int64_t topk, std::optional<double> scale,
                    const std::optional<at::Tensor>& bias) {
  std::vector<at::Tensor> inputs{query, key, value};
  if (bias) inputs.push_back(*bias);
  const auto bias_of = [](const std::vector<at::Tensor>& t) {
    return t.size() > 3 ? std::optional(t[3]) : std::nullopt;
  };
  return ApplyWithReferenceGradient(
      inputs,
      {.forward =
           [=](const std::vector<at::Tensor>& t) {
             return KnnAttention(t[0], t[1], t[2], topk, scale, bias_of(t));
           },
       .reference =
           [=](const std::vector<at::Tensor>& t) {
             return KnnAttentionReference(MakeInputs(t[0], t[1], t[2], topk, scale, bias_of(t)));
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
