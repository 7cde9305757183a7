// KVT's measures of every layer of a model (kernels/measures/measures.h), taken during one pass.
//   KVT (Wang et al., ECCV 2022), section 4.5, figures 2 and 3.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/forward_context.h"

namespace fovea::models {

// Of one residual block; one number per image, [B], unless said otherwise.
struct LayerMeasures {
  std::string layer;                // "blocks.3"
  at::Tensor cosine_similarity;     // between the tokens that leave the block
  at::Tensor attention_norm_ratio;  // of the attention branch to what it is added to
  at::Tensor mlp_norm_ratio;        // of the MLP branch, likewise
  // Undefined where there are no weights: a convolution in place of an attention.
  at::Tensor attention_standard_deviation;  // of the weights
  at::Tensor nonlocality;                   // [B, heads], in patches
};

// Give it to a pass and read layers() afterwards. Attention maps are made for it, from the
// references: it is not for serving. Not thread-safe, for one pass.
class MeasuringContext final : public ForwardContext {
 public:
  bool Recording() const override { return true; }
  bool WantsMaps() const override { return true; }
  void Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) override;
  void RecordMap(std::string_view layer, const at::Tensor& weights, const Grid& grid) override;

  const std::vector<LayerMeasures>& layers() const { return layers_; }

 private:
  // Of the block that is running, until its output has come.
  LayerMeasures current_;
  at::Tensor attention_;
  at::Tensor mlp_;
  std::vector<LayerMeasures> layers_;
};

}  // namespace fovea::models
