#include "model_zoo/backbones/staged_backbone.h"

#include <ATen/ATen.h>

#include <utility>

#include "model_zoo/layers/token_map.h"

namespace fovea::models {

StagedBackbone::StagedBackbone(ModelInfo info, const ModelDescription& description,
                               std::vector<PublishedStage> published)
    : info_(std::move(info)), attentions_(description, std::move(published)) {
  info_.attention = attentions_.Canonical();
}

void StagedBackbone::AddGrid(const Grid& grid) {
  if (grids_.empty()) info_.tokens = grid.tokens();
  grids_.push_back(grid);
}

void StagedBackbone::AddHead(int64_t channels, double norm_epsilon, const HeadNames& names) {
  norm_ = Add<LayerNorm>(names.norm, channels, norm_epsilon);
  if (info_.num_classes > 0) {
    linear_ = Add<Linear>(names.linear, channels, info_.num_classes);
    linear_->KeepPrecision();
  }
}

std::vector<at::Tensor> StagedBackbone::forward(const at::Tensor& pixels,
                                                ForwardContext& context) const {
  const at::Tensor tokens = RunStages(pixels, context, nullptr);
  if (!tokens.defined()) return {};
  context.EnterStage("head");
  return {RunHead(tokens)};
}

std::vector<at::Tensor> StagedBackbone::Features(const at::Tensor& pixels,
                                                 ForwardContext& context) const {
  std::vector<at::Tensor> maps;
  if (!RunStages(pixels, context, &maps).defined()) return {};
  return maps;
}

at::Tensor StagedBackbone::RunHead(const at::Tensor& tokens) const {
  const at::Tensor features = grids_.back().prefix_tokens > 0 ? norm_->forward(tokens.select(1, 0))
                                                              : norm_->forward(tokens).mean(1);
  return linear_ ? linear_->forward(features) : features;
}

at::Tensor StagedBackbone::RunStages(const at::Tensor& pixels, ForwardContext& context,
                                     std::vector<at::Tensor>* maps) const {
  context.EnterStage("stem");
  at::Tensor tokens = RunStem(pixels);
  Grid before;
  for (size_t i = 0; i < grids_.size(); ++i) {
    context.EnterStage("stage" + std::to_string(i + 1));
    tokens = RunStage(i, std::move(tokens), before, context);
    if (!tokens.defined()) return {};
    before = grids_[i];
    if (maps != nullptr) maps->push_back(TokensToMap(tokens, before.height, before.width));
  }
  return tokens;
}

}  // namespace fovea::models
