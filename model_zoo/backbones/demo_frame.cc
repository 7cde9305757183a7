// A small frame for comparing trained attentions: a plain vision transformer whose tokens all lie
// on the map, so that every family of attention can stand in it, and whose four heads divide as
// each of them needs.
//   Ours, after Dosovitskiy et al. 2021 without the class token: the mean of the normalised tokens
//   is classified, as in timm's vision transformers with global_pool="avg", whose names these are.
#include "model_zoo/backbones/demo_frame.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/stages.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/patch_embed.h"
#include "model_zoo/layers/position_embedding.h"
#include "model_zoo/layers/simple_pyramid.h"

namespace fovea::models {
namespace {

struct FrameConfig {
  int64_t image_side = 64;
  int64_t patch = 8;
  int64_t channels = 128;
  int64_t depth = 4;
  int64_t heads = 4;
  int64_t mlp_ratio = 2;
  int64_t window = 4;  // a quarter of the map: windows shift, axes are longer than a window
  int64_t num_classes = 10;
};

FrameConfig Shrunk(FrameConfig config) {
  config.channels = 8 * config.heads;
  config.depth = 2;
  return config;
}

class DemoFrame final : public Backbone {
 public:
  DemoFrame(const FrameConfig& config, const ModelDescription& description)
      : info_(Describe(config, description)),
        grid_{.height = info_.image_height / config.patch,
              .width = info_.image_width / config.patch},
        patch_embed_(Add<PatchEmbed>("patch_embed", config.patch, config.channels)),
        pos_embed_(AddParameter("pos_embed", {1, grid_.tokens(), config.channels})) {
    const StageAttentions attentions(description, {{.text = "dense"}});
    info_.attention = attentions.Canonical();
    const AttentionFactory attention = attentions.Stage(0, MakeSelfAttention);
    blocks_ = Add<TransformerBlocks>(
        "blocks", config.depth,
        TransformerBlockOptions{.channels = config.channels,
                                .mlp_hidden = config.mlp_ratio * config.channels},
        [&](int64_t block) {
          return attention.Module({.channels = config.channels,
                                   .heads = config.heads,
                                   .grid = grid_,
                                   .block = block,
                                   .window = config.window});
        });
    norm_ = Add<LayerNorm>("norm", config.channels);
    head_ = Add<Linear>("head", config.channels, info_.num_classes);
  }

  std::vector<at::Tensor> forward(const at::Tensor& pixels,
                                  ForwardContext& context) const override {
    const at::Tensor tokens = Blocks(pixels, context);
    if (!tokens.defined()) return {};
    context.EnterStage("head");
    return {head_->forward(norm_->forward(tokens).mean(1))};
  }

  std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                   ForwardContext& context) const override {
    const at::Tensor tokens = Blocks(pixels, context);
    if (!tokens.defined()) return {};
    return SimplePyramid(TokensToMap(norm_->forward(tokens), grid_.height, grid_.width));
  }

  const ModelInfo& info() const override { return info_; }

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    if (parameter != "pos_embed") return stored;
    return ResizePositionEmbedding(stored, 0, {grid_.height, grid_.width});
  }

 private:
  static ModelInfo Describe(const FrameConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(
        description, {.side = config.image_side, .num_classes = config.num_classes},
        config.channels);
    CheckDivides(info, config.patch);
    info.tokens = (info.image_height / config.patch) * (info.image_width / config.patch);
    info.features = SimplePyramidFeatures(config.channels, config.patch);
    return info;
  }

  // The tokens behind the last block; undefined when the context stopped the pass.
  at::Tensor Blocks(const at::Tensor& pixels, ForwardContext& context) const {
    context.EnterStage("stem");
    at::Tensor tokens = patch_embed_->forward(pixels) + pos_embed_;
    context.EnterStage("stage1");
    return blocks_->forward(std::move(tokens), grid_, context, "blocks");
  }

  ModelInfo info_;
  const Grid grid_;
  const std::shared_ptr<PatchEmbed> patch_embed_;
  at::Tensor pos_embed_;
  std::shared_ptr<TransformerBlocks> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;
};

}  // namespace

void RegisterDemoFrame(BackboneRegistry& registry) {
  registry.Add(Variant<DemoFrame>("demo_frame_64",
                                  "a small frame for 64-pixel images, in which the families of "
                                  "attention are trained side by side",
                                  FrameConfig{}));
}

}  // namespace fovea::models
