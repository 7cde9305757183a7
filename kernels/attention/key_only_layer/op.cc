#include "kernels/attention/key_only_layer/op.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention/key_only_layer/implementations.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "key_only_layer";

using OptionalTensor = std::optional<at::Tensor>;
using OptionalList = std::optional<std::vector<at::Tensor>>;

void CheckWeights(const Contract& contract, Contract::Argument model, const c10::SymInt& channels,
                  const KeyOnlyWeights& w) {
  const auto check = [&](std::string_view name, const at::Tensor& tensor, bool weight) {
    const Contract::Argument argument{name, tensor};
    contract.HasTypeAndDeviceOf(argument, model);
    if (weight) {
      contract.HasShape(argument, {{channels, channels}}, "[channels, channels]");
    } else {
      contract.HasShape(argument, {{channels}}, "[channels]");
    }
  };
  const auto check_bias = [&](std::string_view name, const std::optional<at::Tensor>& bias) {
    if (bias) check(name, *bias, /*weight=*/false);
  };
  check("key_weight", w.key_weight, /*weight=*/true);
  check_bias("key_bias", w.key_bias);
  check("value_weight", w.value_weight, /*weight=*/true);
  check_bias("value_bias", w.value_bias);
  const Contract::Argument saliency{"saliency", w.saliency};
  contract.HasRank(saliency, 2, "[heads, head_dim]");
  contract.HasTypeAndDeviceOf(saliency, model);
  contract.HasElements(saliency, channels, "heads * head_dim = channels");
  check("u1_weight", w.u1_weight, /*weight=*/true);
  check_bias("u1_bias", w.u1_bias);
  check("u2_weight", w.u2_weight, /*weight=*/true);
  check_bias("u2_bias", w.u2_bias);
}

void CheckFolded(const Contract& contract, Contract::Argument x, const KeyOnlyWeights& w,
                 const OptionalList& folded) {
  if (!folded) return;
  contract.IsWithin("folded's length", static_cast<int64_t>(folded->size()), 6, 6,
                    "what fold_key_only_weights returns");
  const c10::SymInt c = x.tensor.sym_size(2), heads = w.saliency.sym_size(0),
                    dim = w.saliency.sym_size(1);
  const std::vector<std::vector<c10::SymInt>> shapes = {
      {heads, c}, {heads, dim, c}, {heads, dim, 1}, {c + 1, c}, {c, c}, {c + 1, c}};
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string name = "folded[" + std::to_string(i) + "]";
    contract.HasShape({name, (*folded)[i]}, shapes[i], "of fold_key_only_weights");
    if (i < 3) {
      contract.IsFp32On({name, (*folded)[i]}, x);
    } else {
      contract.HasTypeAndDeviceOf({name, (*folded)[i]}, x);
    }
  }
}

void CheckContract(const at::Tensor& x, const KeyOnlyWeights& weights, std::optional<double> scale,
                   const OptionalList& folded) {
  const Contract contract(kOp);
  const Contract::Argument tokens{"x", x};
  contract.HasRank(tokens, 3, "[batch, tokens, channels]");
  contract.IsFloating(tokens);
  contract.IsNotEmpty(tokens, 1, "token");
  contract.IsNotEmpty(tokens, 2, "channel");
  contract.IsContiguousInLastDim(tokens);
  CheckWeights(contract, tokens, x.sym_size(2), weights);
  if (scale) contract.IsFinite("scale", *scale);
  CheckFolded(contract, tokens, weights, folded);
}

KeyOnlyLayerInputs MakeInputs(const at::Tensor& x, const KeyOnlyWeights& weights,
                              std::optional<double> scale, const OptionalList& folded) {
  KeyOnlyLayerInputs in{x, weights, 0.0, std::nullopt};
  in.scale = scale.value_or(1.0 / std::sqrt(static_cast<double>(weights.saliency.size(1))));
  if (folded) in.folded = FoldedKeyOnlyWeights::FromList(*folded);
  return in;
}

at::Tensor Call(const at::Tensor& x, const KeyOnlyWeights& w, std::optional<double> scale,
                const OptionalList& folded);

at::Tensor Compute(const at::Tensor& x, const at::Tensor& key_weight,
                   const OptionalTensor& key_bias, const at::Tensor& value_weight,
                   const OptionalTensor& value_bias, const at::Tensor& saliency,
                   const at::Tensor& u1_weight, const OptionalTensor& u1_bias,
                   const at::Tensor& u2_weight, const OptionalTensor& u2_bias,
                   std::optional<double> scale, const OptionalList& folded) {
  const KeyOnlyWeights weights{key_weight, key_bias, value_weight, value_bias, saliency,
                               u1_weight,  u1_bias,  u2_weight,    u2_bias};
  CheckContract(x, weights, scale, folded);
  if (x.numel() == 0) return at::empty(x.sizes(), x.options());
  const KeyOnlyLayerInputs in = MakeInputs(x, weights, scale, folded);
  const Implementation chosen =
      ChooseImplementation(KeyOnlyLayerCapabilities(), x.device().type(), x.scalar_type());
  return chosen == Implementation::kReference ? KeyOnlyLayerReference(in) : KeyOnlyLayerFast(in);
}

at::Tensor Meta(const at::Tensor& x, const at::Tensor& key_weight, const OptionalTensor& key_bias,
                const at::Tensor& value_weight, const OptionalTensor& value_bias,
                const at::Tensor& saliency, const at::Tensor& u1_weight,
                const OptionalTensor& u1_bias, const at::Tensor& u2_weight,
                const OptionalTensor& u2_bias, std::optional<double> scale,
                const OptionalList& folded) {
  CheckContract(x,
                {key_weight, key_bias, value_weight, value_bias, saliency, u1_weight, u1_bias,
                 u2_weight, u2_bias},
                scale, folded);
  return at::empty_symint(x.sym_sizes(), x.options());
}

at::Tensor Autograd(const at::Tensor& x, const at::Tensor& key_weight,
                    const OptionalTensor& key_bias, const at::Tensor& value_weight,
                    const OptionalTensor& value_bias, const at::Tensor& saliency,
                    const at::Tensor& u1_weight, const OptionalTensor& u1_bias,
                    const at::Tensor& u2_weight, const OptionalTensor& u2_bias,
                    std::optional<double> scale, const OptionalList& folded) {
  std::vector<at::Tensor> inputs{x, key_weight, value_weight, saliency, u1_weight, u2_weight};
  std::vector<bool> given;
  for (const OptionalTensor& bias : {key_bias, value_bias, u1_bias, u2_bias}) {
    given.push_back(bias.has_value());
    if (bias) inputs.push_back(*bias);
  }
  const auto weights_of = [given](const std::vector<at::Tensor>& t) {
    size_t next = 6;
    const auto bias = [&](size_t i) { return given[i] ? OptionalTensor(t[next++]) : std::nullopt; };
    // In the order of a braced list, which is evaluated from the left.
    return KeyOnlyWeights{t[1], bias(0), t[2], bias(1), t[3], t[4], bias(2), t[5], bias(3)};
  };
  return ApplyWithReferenceGradient(inputs, {.forward =
                                                 [=](const std::vector<at::Tensor>& t) {
                                                   return Call(t[0], weights_of(t), scale, folded);
                                                 },
                                             .reference =
                                                 [=](const std::vector<at::Tensor>& t) {
                                                   return KeyOnlyLayerReference(MakeInputs(
                                                       t[0], weights_of(t), scale, std::nullopt));
                                                 }});
}

std::vector<at::Tensor> FoldForPython(const at::Tensor& key_weight, const OptionalTensor& key_bias,
                                      const at::Tensor& value_weight,
                                      const OptionalTensor& value_bias, const at::Tensor& saliency,
                                      const at::Tensor& u1_weight, const OptionalTensor& u1_bias,
                                      const at::Tensor& u2_weight, const OptionalTensor& u2_bias) {
  return FoldKeyOnlyWeights({key_weight, key_bias, value_weight, value_bias, saliency, u1_weight,
                             u1_bias, u2_weight, u2_bias});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "key_only_layer(Tensor x, Tensor key_weight, Tensor? key_bias, Tensor value_weight, "
      "Tensor? value_bias, Tensor saliency, Tensor u1_weight, Tensor? u1_bias, Tensor u2_weight, "
      "Tensor? u2_bias, float? scale=None, Tensor[]? folded=None) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
  m.def(
      "fold_key_only_weights(Tensor key_weight, Tensor? key_bias, Tensor value_weight, "
      "Tensor? value_bias, Tensor saliency, Tensor u1_weight, Tensor? u1_bias, Tensor u2_weight, "
      "Tensor? u2_bias) -> Tensor[]",
      FoldForPython);
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("key_only_layer", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("key_only_layer", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("key_only_layer", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("key_only_layer", Autograd); }

at::Tensor Call(const at::Tensor& x, const KeyOnlyWeights& w, std::optional<double> scale,
                const OptionalList& folded) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::key_only_layer", "")
                             .typed<decltype(Compute)>();
  return op.call(x, w.key_weight, w.key_bias, w.value_weight, w.value_bias, w.saliency, w.u1_weight,
                 w.u1_bias, w.u2_weight, w.u2_bias, scale, folded);
}

}  // namespace

Capabilities KeyOnlyLayerCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor KeyOnlyLayer(const at::Tensor& x, const KeyOnlyWeights& weights,
                        std::optional<double> scale,
                        const std::optional<std::vector<at::Tensor>>& folded) {
  return Call(x, weights, scale, folded);
}

std::vector<at::Tensor> FoldKeyOnlyWeights(const KeyOnlyWeights& weights) {
  const Contract contract("fold_key_only_weights");
  const Contract::Argument key_weight{"key_weight", weights.key_weight};
  contract.HasRank(key_weight, 2, "[channels, channels]");
  contract.IsFloating(key_weight);
  contract.IsNotEmpty(key_weight, 0, "channel");
  CheckWeights(contract, key_weight, weights.key_weight.sym_size(0), weights);
  return Fold(weights).List();
}

}  // namespace fovea::kernels
