// The frame of backbones whose map shrinks on its way: a stem, stages that each have a grid of
// their own, a head.
//   A subclass declares its layers, in the order of their parameters, and says what each of the
//   three runs. In what order, when the pass stops early, and which maps make the pyramid is said
//   here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/attention/registry/stage_attentions.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/layers/grid.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

// What the two layers of the usual head are called in the parameters' names.
struct HeadNames {
  std::string norm = "norm";
  std::string linear = "head";
};

class StagedBackbone : public Backbone {
 public:
  std::vector<at::Tensor> forward(const at::Tensor& pixels, ForwardContext& context) const final;

  // The map of each stage, unless a subclass has others.
  std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                   ForwardContext& context) const override;

  const ModelInfo& info() const final { return info_; }

 protected:
  // `info` lacks only what the stages say: `attention` and `tokens`. Throws c10::ValueError where
  // the description's attention is none for the `published` stages.
  StagedBackbone(ModelInfo info, const ModelDescription& description,
                 std::vector<PublishedStage> published);

  // For constructors. The grid of the next stage's tokens:
  void AddGrid(const Grid& grid);
  // The usual head, behind the last stage: LayerNorm; the class token where there is one, otherwise
  // the mean over all tokens; a linear layer where there are classes.
  void AddHead(int64_t channels, double norm_epsilon = 1e-6, const HeadNames& names = {});

  const StageAttentions& attentions() const { return attentions_; }
  const Grid& grid(size_t stage) const { return grids_.at(stage); }
  const LayerNorm& norm() const { return *norm_; }  // of the usual head

  // pixels, as forward's -> what the first stage takes.
  virtual at::Tensor RunStem(const at::Tensor& pixels) const = 0;

  // The tokens of the stage before, on its grid `before` (for stage 0 what the stem gave, and no
  // grid) -> [N, grid(stage).tokens(), channels]. Undefined when context.ShouldStop() said so.
  virtual at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                              ForwardContext& context) const = 0;

  // The tokens behind the last stage -> logits, or features. By default the usual head.
  virtual at::Tensor RunHead(const at::Tensor& tokens) const;

  // The tokens behind the last stage, and each stage's map where `maps` is given; undefined when
  // the context stopped the pass.
  at::Tensor RunStages(const at::Tensor& pixels, ForwardContext& context,
                       std::vector<at::Tensor>* maps) const;

 private:
  ModelInfo info_;
  const StageAttentions attentions_;
  std::vector<Grid> grids_;
  std::shared_ptr<LayerNorm> norm_;  // null without AddHead
  std::shared_ptr<Linear> linear_;   // null where the model gives features
};

}  // namespace fovea::models
