#include "kernels/attention/window_attention/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

#include "kernels/attention/shared/token_sets.h"
#include "kernels/attention/window_attention/implementations.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "window_attention";

void CheckContract(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   at::IntArrayRef window, at::IntArrayRef shift, std::optional<double> scale,
                   const std::optional<at::Tensor>& bias) {
  const Contract contract(kOp);
  CheckMaps(contract, query, key, value);
  contract.HasLength("window", window, 2);
  contract.HasLength("shift", shift, 2);
  for (const int64_t axis : {0, 1}) {
    contract.Divides("window", window[axis], query.sym_size(2 + axis),
                     axis == 0 ? "the map's height" : "the map's width");
    contract.IsWithin("shift", shift[axis], 0, window[axis] - 1, "the window less one");
  }
  if (scale) contract.IsFinite("scale", *scale);
  if (bias) {
    CheckPositionBias(contract, {"bias", *bias}, query, query.sym_size(1), window[0] * window[1]);
  }
}

WindowAttentionInputs MakeInputs(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, at::IntArrayRef window,
                                 at::IntArrayRef shift, std::optional<double> scale,
                                 const std::optional<at::Tensor>& bias) {
  return {
      query, key, value, {window[0], window[1]}, {shift[0], shift[1]}, ScaleOrDefault(scale, query),
      bias};
}

at::Tensor Compute(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   at::IntArrayRef window, at::IntArrayRef shift, std::optional<double> scale,
                   const std::optional<at::Tensor>& bias) {
  CheckContract(query, key, value, window, shift, scale, bias);
  at::Tensor output = EmptyMap(query);
  if (output.numel() == 0) return output;
  WindowAttentionInputs in = MakeInputs(query, key, value, window, shift, scale, bias);
  const Implementation chosen = ChooseImplementation(WindowAttentionCapabilities(),
                                                     query.device().type(), query.scalar_type());
  if (chosen != Implementation::kReference) in.bias = InFp32(bias);
  switch (chosen) {
    case Implementation::kReference:
      output.copy_(WindowAttentionReference(in));
      break;
    case Implementation::kCpu:
      WindowAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
      FOVEA_CUDA_ONLY(WindowAttentionCuda(in, output));
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                at::IntArrayRef window, at::IntArrayRef shift, std::optional<double> scale,
                const std::optional<at::Tensor>& bias) {
  CheckContract(query, key, value, window, shift, scale, bias);
  return EmptyMap(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    at::IntArrayRef window, at::IntArrayRef shift, std::optional<double> scale,
                    const std::optional<at::Tensor>& bias) {
  const OptionalTensors tensors({query, key, value, bias});
  return ApplyWithReferenceGradient(
      tensors.given(),
      {.forward =
           [=, window = window.vec(), shift = shift.vec()](const std::vector<at::Tensor>& given) {
             const OptionalTensors::List t = tensors.InPlaces(given);
             return WindowAttention(*t[0], *t[1], *t[2], window, shift, scale, t[3]);
           },
       .reference =
           [=, window = window.vec(), shift = shift.vec()](const std::vector<at::Tensor>& given) {
             const OptionalTensors::List t = tensors.InPlaces(given);
             return WindowAttentionReference(
                 MakeInputs(*t[0], *t[1], *t[2], window, shift, scale, t[3]));
           }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "window_attention(Tensor query, Tensor key, Tensor value, int[2] window, int[2] shift, "
      "float? scale=None, Tensor? bias=None) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("window_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("window_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("window_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("window_attention", Autograd); }

}  // namespace

Capabilities WindowAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor WindowAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           at::IntArrayRef window, at::IntArrayRef shift,
                           std::optional<double> scale, const std::optional<at::Tensor>& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::window_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(query, key, value, window, shift, scale, bias);
}

}  // namespace fovea::kernels
