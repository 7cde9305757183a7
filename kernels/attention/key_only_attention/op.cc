#include "kernels/attention/key_only_attention/op.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cmath>
#include <vector>

#include "kernels/attention/key_only_attention/implementations.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "key_only_attention";
constexpr std::string_view kTokens = "[batch, heads, tokens, head_dim]";

void CheckContract(const at::Tensor& key, const at::Tensor& value, const at::Tensor& saliency,
                   std::optional<double> scale) {
  const Contract contract(kOp);
  const Contract::Argument k{"key", key}, v{"value", value}, s{"saliency", saliency};
  for (const Contract::Argument& argument : {k, v}) {
    contract.HasRank(argument, 4, kTokens);
    contract.IsFloating(argument);
    contract.HasTypeAndDeviceOf(argument, k);
    contract.HasSizeOf(argument, k, 0, "batch size");
    contract.HasSizeOf(argument, k, 1, "head count");
    contract.HasSizeOf(argument, k, 2, "token count");
    contract.IsNotEmpty(argument, 2, "token");
    contract.HasSizeOf(argument, k, 3, "head_dim");
    contract.IsNotEmpty(argument, 3, "channel");
    contract.IsContiguousInLastDim(argument);
  }
  contract.HasTypeAndDeviceOf(s, k);
  contract.HasShape(s, {{key.sym_size(1), key.sym_size(3)}}, "[heads, head_dim]");
  if (scale) contract.IsFinite("scale", *scale);
}

at::Tensor AllocateOutput(const at::Tensor& key) {
  return at::empty_symint({key.sym_size(0), key.sym_size(2), key.sym_size(1), key.sym_size(3)},
                          key.options())
      .transpose(1, 2);
}

KeyOnlyAttentionInputs MakeInputs(const at::Tensor& key, const at::Tensor& value,
                                  const at::Tensor& saliency, std::optional<double> scale) {
  return {key, value, saliency, scale.value_or(1.0 / std::sqrt(static_cast<double>(key.size(3))))};
}

at::Tensor Compute(const at::Tensor& key, const at::Tensor& value, const at::Tensor& saliency,
                   std::optional<double> scale) {
  CheckContract(key, value, saliency, scale);
  at::Tensor output = AllocateOutput(key);
  if (output.numel() == 0) return output;
  const KeyOnlyAttentionInputs in = MakeInputs(key, value, saliency, scale);
  switch (ChooseImplementation(KeyOnlyAttentionCapabilities(), key.device().type(),
                               key.scalar_type())) {
    case Implementation::kReference:
      output.copy_(KeyOnlyAttentionReference(in));
      break;
    case Implementation::kCpu:
      KeyOnlyAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
#ifdef FOVEA_KERNELS_CUDA
      KeyOnlyAttentionCuda(in, output);
#endif
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& key, const at::Tensor& value, const at::Tensor& saliency,
                std::optional<double> scale) {
  CheckContract(key, value, saliency, scale);
  return AllocateOutput(key);
}

at::Tensor Autograd(const at::Tensor& key, const at::Tensor& value, const at::Tensor& saliency,
                    std::optional<double> scale) {
  return ApplyWithReferenceGradient(
      {key, value, saliency},
      {.forward =
           [=](const std::vector<at::Tensor>& t) {
             return KeyOnlyAttention(t[0], t[1], t[2], scale);
           },
       .reference =
           [=](const std::vector<at::Tensor>& t) {
             return KeyOnlyAttentionReference(MakeInputs(t[0], t[1], t[2], scale));
           }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "key_only_attention(Tensor key, Tensor value, Tensor saliency, float? scale=None) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("key_only_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("key_only_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("key_only_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("key_only_attention", Autograd); }

}  // namespace

Capabilities KeyOnlyAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor KeyOnlyAttention(const at::Tensor& key, const at::Tensor& value,
                            const at::Tensor& saliency, std::optional<double> scale) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::key_only_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(key, value, saliency, scale);
}

}  // namespace fovea::kernels
