#include "kernels/attention/axial_window_attention/op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <vector>

#include "kernels/attention/axial_window_attention/implementations.h"
#include "kernels/attention/shared/token_sets.h"
#include "kernels/autograd.h"
#include "kernels/contract.h"
#include "kernels/dispatch.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kOp = "axial_window_attention";

using OptionalTensor = std::optional<at::Tensor>;

void CheckPadding(const Contract& contract, Contract::Argument pad, const at::Tensor& query) {
  contract.HasRank(pad, 2, "[heads/2, head_dim]");
  contract.HasTypeAndDeviceOf(pad, {"query", query});
  contract.HasShape(pad, {{query.sym_size(1) / 2, query.sym_size(4)}}, "[heads/2, head_dim]");
}

void CheckContract(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   int64_t window, int64_t shift, std::optional<double> scale,
                   const OptionalTensor& bias_rows, const OptionalTensor& bias_columns,
                   const OptionalTensor& bias_window, const OptionalTensor& pad_key,
                   const OptionalTensor& pad_value) {
  const Contract contract(kOp);
  CheckMaps(contract, query, key, value);
  contract.IsMultipleOf("query's head count", query.sym_size(1), 4);
  constexpr int64_t kLargestWindow = 256;  // far beyond any model; its square is a token count
  contract.IsWithin("window", window, 1, kLargestWindow, "the largest supported");
  contract.IsWithin("shift", shift, 0, window - 1, "the window less one");
  if (scale) contract.IsFinite("scale", *scale);
  const c10::SymInt heads = query.sym_size(1);
  if (bias_rows) {
    CheckPositionBias(contract, {"bias_rows", *bias_rows}, query, heads / 4, query.sym_size(3));
  }
  if (bias_columns) {
    CheckPositionBias(contract, {"bias_columns", *bias_columns}, query, heads / 4,
                      query.sym_size(2));
  }
  if (bias_window) {
    CheckPositionBias(contract, {"bias_window", *bias_window}, query, heads / 2, window * window);
  }
  if (pad_key) CheckPadding(contract, {"pad_key", *pad_key}, query);
  if (pad_value) CheckPadding(contract, {"pad_value", *pad_value}, query);
}

at::Tensor Compute(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                   int64_t window, int64_t shift, std::optional<double> scale,
                   const OptionalTensor& bias_rows, const OptionalTensor& bias_columns,
                   const OptionalTensor& bias_window, const OptionalTensor& pad_key,
                   const OptionalTensor& pad_value) {
  CheckContract(query, key, value, window, shift, scale, bias_rows, bias_columns, bias_window,
                pad_key, pad_value);
  at::Tensor output = EmptyMap(query);
  if (output.numel() == 0) return output;
  AxialWindowAttentionInputs in{
      query,     key,          value,       window,  shift,    ScaleOrDefault(scale, query),
      bias_rows, bias_columns, bias_window, pad_key, pad_value};
  const Implementation chosen = ChooseImplementation(AxialWindowAttentionCapabilities(),
                                                     query.device().type(), query.scalar_type());
  if (chosen != Implementation::kReference) {
    for (OptionalTensor* bias : {&in.bias_rows, &in.bias_columns, &in.bias_window}) {
      *bias = InFp32(*bias);
    }
  }
  switch (chosen) {
    case Implementation::kReference:
      output.copy_(AxialWindowAttentionReference(in));
      break;
    case Implementation::kCpu:
      AxialWindowAttentionCpu(in, output);
      break;
    case Implementation::kCuda:
      FOVEA_CUDA_ONLY(AxialWindowAttentionCuda(in, output));
      break;
  }
  return output;
}

at::Tensor Meta(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                int64_t window, int64_t shift, std::optional<double> scale,
                const OptionalTensor& bias_rows, const OptionalTensor& bias_columns,
                const OptionalTensor& bias_window, const OptionalTensor& pad_key,
                const OptionalTensor& pad_value) {
  CheckContract(query, key, value, window, shift, scale, bias_rows, bias_columns, bias_window,
                pad_key, pad_value);
  return EmptyMap(query);
}

at::Tensor Autograd(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    int64_t window, int64_t shift, std::optional<double> scale,
                    const OptionalTensor& bias_rows, const OptionalTensor& bias_columns,
                    const OptionalTensor& bias_window, const OptionalTensor& pad_key,
                    const OptionalTensor& pad_value) {
  const OptionalTensors tensors(
      {query, key, value, bias_rows, bias_columns, bias_window, pad_key, pad_value});
  return ApplyWithReferenceGradient(
      tensors.given(), {.forward =
                            [=](const std::vector<at::Tensor>& given) {
                              const OptionalTensors::List t = tensors.InPlaces(given);
                              return AxialWindowAttention(*t[0], *t[1], *t[2], window, shift, scale,
                                                          t[3], t[4], t[5], t[6], t[7]);
                            },
                        .reference =
                            [=](const std::vector<at::Tensor>& given) {
                              const OptionalTensors::List t = tensors.InPlaces(given);
                              return AxialWindowAttentionReference(
                                  {*t[0], *t[1], *t[2], window, shift, ScaleOrDefault(scale, *t[0]),
                                   t[3], t[4], t[5], t[6], t[7]});
                            }});
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "axial_window_attention(Tensor query, Tensor key, Tensor value, int window, int shift, "
      "float? scale=None, Tensor? bias_rows=None, Tensor? bias_columns=None, "
      "Tensor? bias_window=None, Tensor? pad_key=None, Tensor? pad_value=None) -> Tensor",
      {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("axial_window_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, CUDA, m) { m.impl("axial_window_attention", Compute); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("axial_window_attention", Meta); }
TORCH_LIBRARY_IMPL(fovea, Autograd, m) { m.impl("axial_window_attention", Autograd); }

}  // namespace

Capabilities AxialWindowAttentionCapabilities() {
  return {.op = kOp, .cpu = VectorisedOnCpu(), .cuda = WrittenInCuda()};
}

at::Tensor AxialWindowAttention(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, int64_t window, int64_t shift,
                                std::optional<double> scale, const OptionalTensor& bias_rows,
                                const OptionalTensor& bias_columns,
                                const OptionalTensor& bias_window, const OptionalTensor& pad_key,
                                const OptionalTensor& pad_value) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("fovea::axial_window_attention", "")
                             .typed<decltype(Compute)>();
  return op.call(query, key, value, window, shift, scale, bias_rows, bias_columns, bias_window,
                 pad_key, pad_value);
}

}  // namespace fovea::kernels
