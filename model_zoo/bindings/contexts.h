// What Python tells a pass, and what it records for it.
#pragma once

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/forward_context.h"
#include "model_zoo/layers/grid.h"
#include "model_zoo/measures/layer_measures.h"

namespace fovea::models {

using NamedTensors = c10::Dict<std::string, at::Tensor>;

// Of pictures that do not fill the input.
class PicturesContext final : public ForwardContext {
 public:
  // contents: [height, width] of each, from its upper left corner; outlives this.
  PicturesContext(const std::vector<std::vector<int64_t>>& contents, const at::Tensor& input)
      : contents_(contents) {
    TORCH_CHECK_VALUE(static_cast<int64_t>(contents.size()) == input.size(0),
                      "a height and a width for each image, not ", contents.size());
  }
  ImageSize Content(int64_t image, const ImageSize& /*input*/) const override {
    return {contents_[image].at(0), contents_[image].at(1)};
  }

 private:
  const std::vector<std::vector<int64_t>>& contents_;
};

// Keeps what a pass records, by "LAYER.NAME".
class RecordingContext final : public ForwardContext {
 public:
  bool Recording() const override { return true; }
  void Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) override {
    records.insert_or_assign(std::string(layer) + "." + std::string(name), tensor.to(at::kFloat));
  }

  NamedTensors records;
};

// Keeps the attention maps of a pass: by "LAYER" the weights [B, heads, tokens, tokens], by
// "LAYER.grid" the numbers {height, width, prefix tokens} of these tokens.
class MapsContext final : public ForwardContext {
 public:
  bool Recording() const override { return true; }
  bool WantsMaps() const override { return true; }
  void RecordMap(std::string_view layer, const at::Tensor& weights, const Grid& grid) override {
    const std::string name(layer);
    maps.insert_or_assign(name, weights.to(at::kFloat));
    maps.insert_or_assign(name + ".grid",
                          at::tensor({grid.height, grid.width, grid.prefix_tokens}, at::kLong));
  }

  NamedTensors maps;
};

// KVT's measures of each layer, by "LAYER.MEASURE" (model_zoo/measures/layer_measures.h).
inline NamedTensors ByName(const std::vector<LayerMeasures>& layers) {
  NamedTensors measures;
  for (const LayerMeasures& layer : layers) {
    measures.insert(layer.layer + ".cosine_similarity", layer.cosine_similarity);
    measures.insert(layer.layer + ".attention_norm_ratio", layer.attention_norm_ratio);
    measures.insert(layer.layer + ".mlp_norm_ratio", layer.mlp_norm_ratio);
    if (!layer.nonlocality.defined()) continue;  // a convolution has no weights
    measures.insert(layer.layer + ".attention_standard_deviation",
                    layer.attention_standard_deviation);
    measures.insert(layer.layer + ".nonlocality", layer.nonlocality);
  }
  return measures;
}

}  // namespace fovea::models
