#include "kernels/measures/measures.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include "kernels/contract.h"

namespace fovea::kernels {
namespace {

at::Tensor InFloat(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

// x / y, and 0 where y is 0.
at::Tensor RatioOrZero(const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor zero = y.eq(0);
  return (x / y.masked_fill(zero, 1.0)).masked_fill(zero, 0.0);
}

// [positions, positions]: Euclidean distances on the grid.
at::Tensor Distances(at::IntArrayRef grid, const at::TensorOptions& options) {
  const at::Tensor place = at::arange(grid[0] * grid[1], options);
  const at::Tensor y = place.div(grid[1], "floor");
  const at::Tensor x = place - y * grid[1];
  const auto squares = [](const at::Tensor& axis) {
    return (axis.unsqueeze(0) - axis.unsqueeze(1)).square();
  };
  return (squares(y) + squares(x)).sqrt();
}

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("token_cosine_similarity(Tensor tokens) -> Tensor", TokenCosineSimilarity);
  m.def("attention_standard_deviation(Tensor weights) -> Tensor", AttentionStandardDeviation);
  m.def("residual_norm_ratio(Tensor branch, Tensor main) -> Tensor", ResidualNormRatio);
  m.def("nonlocality(Tensor weights, int[2] grid, int prefix_tokens=0) -> Tensor", Nonlocality);
}

}  // namespace

at::Tensor TokenCosineSimilarity(const at::Tensor& tokens) {
  const Contract contract("token_cosine_similarity");
  contract.HasRank({"tokens", tokens}, 3, "[batch, tokens, channels]");
  contract.IsFloating({"tokens", tokens});
  contract.IsWithin("tokens' count", tokens.size(1), 2, INT32_MAX, "pairs are compared");
  const at::Tensor t = InFloat(tokens);
  const at::Tensor length = at::linalg_vector_norm(t, 2, at::IntArrayRef{-1}, /*keepdim=*/true);
  const at::Tensor directions = RatioOrZero(t, length);
  const at::Tensor all_pairs = directions.sum(1).square().sum(-1);
  const at::Tensor itself = directions.square().sum({1, 2});
  const double n = static_cast<double>(t.size(1));
  return (all_pairs - itself) / (n * (n - 1));
}

at::Tensor AttentionStandardDeviation(const at::Tensor& weights) {
  const Contract contract("attention_standard_deviation");
  contract.HasRank({"weights", weights}, 4, "[batch, heads, query tokens, key tokens]");
  contract.IsFloating({"weights", weights});
  return at::std(InFloat(weights), at::IntArrayRef{-1}, /*unbiased=*/false).mean({1, 2});
}

at::Tensor ResidualNormRatio(const at::Tensor& branch, const at::Tensor& main) {
  const Contract contract("residual_norm_ratio");
  contract.HasRank({"branch", branch}, 3, "[batch, tokens, channels]");
  contract.IsFloating({"branch", branch});
  contract.HasRank({"main", main}, 3, "[batch, tokens, channels]");
  contract.HasTypeAndDeviceOf({"main", main}, {"branch", branch});
  contract.HasShape({"main", main}, branch.sym_sizes(), "branch's shape");
  const auto length = [](const at::Tensor& t) {
    return at::linalg_vector_norm(InFloat(t), 2, at::IntArrayRef{-1});
  };
  return (length(branch) / length(main)).mean(-1);
}

at::Tensor Nonlocality(const at::Tensor& weights, at::IntArrayRef grid, int64_t prefix_tokens) {
  const Contract contract("nonlocality");
  contract.HasRank({"weights", weights}, 4, "[batch, heads, tokens, tokens]");
  contract.IsFloating({"weights", weights});
  contract.HasLength("grid", grid, 2);
  const int64_t tokens = weights.size(2);
  contract.IsWithin("prefix_tokens", prefix_tokens, 0, tokens, "weights' tokens");
  const int64_t positions = grid[0] * grid[1];
  for (const int64_t dim : {2, 3}) {
    contract.HasCount({"weights", weights}, dim, prefix_tokens + positions,
                      "tokens, prefix_tokens and the grid's");
  }
  const at::Tensor patches =
      InFloat(weights).narrow(2, prefix_tokens, positions).narrow(3, prefix_tokens, positions);
  return (patches * Distances(grid, patches.options())).sum({2, 3}) /
         static_cast<double>(positions);
}

}  // namespace fovea::kernels
