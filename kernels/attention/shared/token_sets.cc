#include "kernels/attention/shared/token_sets.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>

namespace fovea::kernels {
namespace {

constexpr std::string_view kTokens = "[batch, heads, tokens, head_dim]";
constexpr std::string_view kMaps = "[batch, heads, height, width, head_dim]";

}  // namespace

void CheckTokenSetLike(const Contract& contract, Contract::Argument argument,
                       const at::Tensor& query) {
  const Contract::Argument q{"query", query};
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

void CheckTokenSets(const Contract& contract, const at::Tensor& query, const at::Tensor& key,
                    const at::Tensor& value) {
  const Contract::Argument q{"query", query}, k{"key", key}, v{"value", value};
  for (const Contract::Argument& argument : {q, k, v}) CheckTokenSetLike(contract, argument, query);
  contract.HasSizeOf(v, k, 2, "token count");
}

void CheckMaps(const Contract& contract, const at::Tensor& query, const at::Tensor& key,
               const at::Tensor& value) {
  const Contract::Argument q{"query", query}, k{"key", key}, v{"value", value};
  for (const Contract::Argument& argument : {q, k, v}) {
    contract.HasRank(argument, 5, kMaps);
    contract.IsFloating(argument);
    contract.HasTypeAndDeviceOf(argument, q);
    contract.HasSizeOf(argument, q, 0, "batch size");
    contract.HasSizeOf(argument, q, 1, "head count");
    contract.HasSizeOf(argument, q, 2, "height");
    contract.IsNotEmpty(argument, 2, "row");
    contract.HasSizeOf(argument, q, 3, "width");
    contract.IsNotEmpty(argument, 3, "column");
    contract.HasSizeOf(argument, q, 4, "head_dim");
    contract.IsNotEmpty(argument, 4, "channel");
    contract.IsContiguousInLastDim(argument);
  }
}

void CheckLogitBias(const Contract& contract, const std::optional<at::Tensor>& bias,
                    const at::Tensor& query, const at::Tensor& key) {
  if (!bias) return;
  contract.IsBiasOf({"bias", *bias}, {"query", query});
  contract.BroadcastsTo(
      {"bias", *bias}, {{query.sym_size(0), query.sym_size(1), query.sym_size(2), key.sym_size(2)}},
      "[batch, heads, query tokens, key tokens]");
}

void CheckPositionBias(const Contract& contract, Contract::Argument bias, const at::Tensor& query,
                       const c10::SymInt& heads, const c10::SymInt& tokens) {
  contract.HasRank(bias, 3, "[heads, tokens, tokens]");
  contract.IsBiasOf(bias, {"query", query});
  contract.HasShape(bias, {{heads, tokens, tokens}}, "[heads, tokens, tokens]");
}

at::Tensor EmptyTokens(const at::Tensor& query) {
  return at::empty_symint(
             {query.sym_size(0), query.sym_size(2), query.sym_size(1), query.sym_size(3)},
             query.options())
      .transpose(1, 2);
}

at::Tensor EmptyMap(const at::Tensor& query) {
  return at::empty_symint({query.sym_size(0), query.sym_size(2), query.sym_size(3),
                           query.sym_size(1), query.sym_size(4)},
                          query.options())
      .permute({0, 3, 1, 2, 4});
}

double ScaleOrDefault(std::optional<double> scale, const at::Tensor& query) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
}

at::ScalarType LogitType(const at::Tensor& query) {
  return query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor SoftmaxOrZero(const at::Tensor& logits) {
  // Softmax over nothing is 0/0. Such a row is zero, and so are its gradients: hence two fills.
  const at::Tensor nothing =
      logits.detach().amax(-1, /*keepdim=*/true).eq(-std::numeric_limits<double>::infinity());
  return at::softmax(logits.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0);
}

std::optional<at::Tensor> InFp32(const std::optional<at::Tensor>& bias) {
  if (!bias) return std::nullopt;
  return bias->to(at::kFloat);
}

std::optional<at::Tensor> ExpandLogitBias(const std::optional<at::Tensor>& bias,
                                          const at::Tensor& query, const at::Tensor& key,
                                          bool fp32) {
  if (!bias) return std::nullopt;
  return (fp32 ? bias->to(at::kFloat) : *bias)
      .expand({query.size(0), query.size(1), query.size(2), key.size(2)});
}

}  // namespace fovea::kernels
