#include "model_zoo/measures/layer_measures.h"

#include <ATen/ATen.h>

#include <utility>

#include "kernels/measures/measures.h"
#include "model_zoo/attention/attention.h"

namespace fovea::models {
namespace {

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

void MeasuringContext::Record(std::string_view layer, std::string_view name,
                              const at::Tensor& tensor) {
  if (name != "output") return;
  if (EndsWith(layer, ".attn")) {
    attention_ = tensor;
  } else if (EndsWith(layer, ".mlp")) {
    mlp_ = tensor;
  } else if (attention_.defined() && mlp_.defined()) {
    const at::Tensor before_mlp = tensor - mlp_;
    current_.layer = std::string(layer);
    current_.cosine_similarity = kernels::TokenCosineSimilarity(tensor);
    current_.mlp_norm_ratio = kernels::ResidualNormRatio(mlp_, before_mlp);
    current_.attention_norm_ratio = kernels::ResidualNormRatio(attention_, before_mlp - attention_);
    layers_.push_back(std::exchange(current_, {}));
    attention_ = mlp_ = at::Tensor();
  }
}

void MeasuringContext::RecordMap(std::string_view /*layer*/, const at::Tensor& weights,
                                 const Grid& grid) {
  current_.attention_standard_deviation = kernels::AttentionStandardDeviation(weights);
  current_.nonlocality =
      kernels::Nonlocality(weights, {grid.height, grid.width}, grid.prefix_tokens);
}

}  // namespace fovea::models
