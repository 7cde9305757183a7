#include "model_zoo/backbones/plain_backbone.h"

#include <ATen/ATen.h>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/layers/position_embedding.h"
#include "model_zoo/layers/simple_pyramid.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

ModelInfo Describe(const PlainOptions& options, const ModelDescription& description) {
  ModelInfo info = DescribeClassifier(description, options.published, options.channels);
  CheckDivides(info, options.stride);
  info.features = SimplePyramidFeatures(options.channels, options.stride);
  return info;
}

}  // namespace

PlainBackbone::PlainBackbone(const PlainOptions& options, const ModelDescription& description)
    : channels_(options.channels),
      norm_epsilon_(options.norm_epsilon),
      info_(Describe(options, description)),
      attentions_(description, {options.attention}),
      grid_{.height = info_.image_height / options.stride,
            .width = info_.image_width / options.stride},
      dense_(description.task != Task::kClassification),
      published_grid_{.height = options.published.side / options.stride,
                      .width = options.published.side / options.stride} {
  info_.attention = attentions_.Canonical();
}

void PlainBackbone::AddPrefixToken(const std::string& name) {
  prefix_.push_back(AddParameter(name, {1, 1, channels_}));
  ++grid_.prefix_tokens;
}

void PlainBackbone::AddPositions(const std::string& name) {
  info_.tokens = grid_.tokens();
  positions_name_ = name;
  positions_ = AddSizedParameter(name, {1, grid_.tokens(), channels_});
}

void PlainBackbone::AddSinePositions(const std::string& name) {
  AddPositions(name);
  positions_.set_requires_grad(false);
  sines_ = true;
}

void PlainBackbone::AddBlocks(int64_t depth, int64_t mlp_hidden, ModuleSite site) {
  const AttentionFactory attention = Attention(MakeSelfAttention);
  site.channels = channels_;
  site.grid = grid_;
  if (dense_ && grid_.prefix_tokens == 0) site.trained = published_grid_;
  blocks_ = Add<TransformerBlocks>(
      "blocks", depth,
      TransformerBlockOptions{
          .channels = channels_, .mlp_hidden = mlp_hidden, .norm_epsilon = norm_epsilon_},
      [&](int64_t block) {
        site.block = block;
        return attention.Module(site);
      });
}

void PlainBackbone::AddNorm() { norm_ = Add<LayerNorm>("norm", channels_, norm_epsilon_); }

void PlainBackbone::AddHead() {
  if (info_.num_classes == 0) return;
  head_ = Add<Linear>("head", channels_, info_.num_classes);
  head_->KeepPrecision();
}

std::vector<at::Tensor> PlainBackbone::forward(const at::Tensor& pixels,
                                               ForwardContext& context) const {
  const at::Tensor tokens = Tokens(pixels, context);
  if (!tokens.defined()) return {};
  context.EnterStage("head");
  return {Classify(tokens)};
}

std::vector<at::Tensor> PlainBackbone::Features(const at::Tensor& pixels,
                                                ForwardContext& context) const {
  const at::Tensor tokens = Tokens(pixels, context);
  if (!tokens.defined()) return {};
  return SimplePyramid(TokensToMap(norm_->forward(tokens), grid_.height, grid_.width));
}

at::Tensor PlainBackbone::Resized(const std::string& parameter, const at::Tensor& stored) const {
  if (parameter != positions_name_) return stored;
  return ResizePositionEmbedding(stored, grid_.prefix_tokens, {grid_.height, grid_.width});
}

void PlainBackbone::Initialise(uint64_t seed) {
  Backbone::Initialise(seed);
  if (sines_) positions_.copy_(SinusoidPositions(positions_.size(1), positions_.size(2)));
}

at::Tensor PlainBackbone::Tokens(const at::Tensor& pixels, ForwardContext& context) const {
  context.EnterStage("stem");
  at::Tensor tokens = Embed(pixels);
  context.EnterStage("stage1");
  return blocks_->forward(std::move(tokens), grid_, context, "blocks");
}

at::Tensor PlainBackbone::Classify(const at::Tensor& tokens) const {
  return Logits(norm_->forward(tokens.select(1, 0)));
}

at::Tensor PlainBackbone::Placed(const at::Tensor& patches) const {
  if (prefix_.empty()) return patches + positions_;
  std::vector<at::Tensor> tokens;
  for (const at::Tensor& token : prefix_) tokens.push_back(token.expand({patches.size(0), -1, -1}));
  tokens.push_back(patches);
  return at::cat(tokens, 1) + positions_;
}

AttentionFactory PlainBackbone::Attention(AttentionFactory::ModuleBuilder own) const {
  return attentions_.Stage(0, std::move(own));
}

at::Tensor PlainBackbone::Logits(const at::Tensor& features) const {
  return head_ ? head_->forward(features) : features;
}

}  // namespace fovea::models
