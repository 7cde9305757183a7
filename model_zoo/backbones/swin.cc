// Swin Transformer: windows that shift, four stages that each halve the map and double the
// channels.
//   Liu et al., ICCV 2021. Code followed: timm 1.0 (swin_transformer.py), whose names these are:
//   patches are merged at the start of a stage; LayerNorm epsilon 1e-5.
//   swin_tiny_32: Static Key Attention in Vision, table 9 (three stages of two blocks, for images
//   of 32 pixels). The paper names no window; 4 divides its maps of 8, 4 and 2 (where it is 2).
//   swin_tiny_heads4_224: the frame in which the AEWin paper (table 4) compares attentions.
//   Swin-T's 3, 6, 12 and 24 heads do not split into the four parts that its own attention needs;
//   here they are 4, 8, 16 and 32 of 24 channels, for every attention.
#include "model_zoo/backbones/swin.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/patch_embed.h"
#include "model_zoo/layers/patch_merging.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr int64_t kPatch = 4;

class Stage final : public Layer {
 public:
  Stage(const SwinConfig& config, int64_t stage, const Grid& grid, bool rolls_first,
        const AttentionFactory& attention)
      : grid_(grid) {
    const int64_t channels = config.channels << stage;
    if (stage > 0) downsample_ = Add<PatchMerging>("downsample", channels / 2, channels, kEpsilon);
    blocks_ = Add<TransformerBlocks>(
        "blocks", config.depths[stage],
        TransformerBlockOptions{
            .channels = channels, .mlp_hidden = 4 * channels, .norm_epsilon = kEpsilon},
        [&](int64_t block) {
          return attention.Module({.channels = channels,
                                   .heads = config.heads[stage],
                                   .grid = grid,
                                   .block = block,
                                   .window = config.window,
                                   .windowed = true,
                                   .rolls_first = rolls_first});
        });
  }

  // tokens of the stage before, on its grid; undefined when the context stopped the pass.
  at::Tensor forward(at::Tensor tokens, const Grid& before, ForwardContext& context,
                     const std::string& name) const {
    if (downsample_) tokens = downsample_->forward(tokens, before);
    return blocks_->forward(std::move(tokens), grid_, context, name + ".blocks");
  }

 private:
  const Grid grid_;
  std::shared_ptr<PatchMerging> downsample_;  // null in the first stage
  std::shared_ptr<TransformerBlocks> blocks_;
};

class Swin final : public StagedBackbone {
 public:
  Swin(const SwinConfig& config, const ModelDescription& description)
      : StagedBackbone(
            Describe(config, description), description,
            std::vector<PublishedStage>(config.depths.size(),
                                        {.text = config.attention, .own = config.attention})),
        patch_embed_(Add<PatchEmbed>("patch_embed", kPatch, config.channels, kEpsilon)),
        layers_(Add<LayerList<Stage>>("layers")) {
    const size_t stages = config.depths.size();
    const bool rolls_first = description.window_padding == WindowPadding::kRollThenPad;
    Grid grid = {.height = info().image_height / kPatch, .width = info().image_width / kPatch};
    for (size_t i = 0; i < stages; ++i) {
      if (i > 0) grid = PatchMerging::Merged(grid);
      layers_->Emplace(config, static_cast<int64_t>(i), grid, rolls_first,
                       attentions().Stage(i, config.own));
      AddGrid(grid);
    }
    const int64_t channels = config.channels << (stages - 1);
    norm_ = Add<LayerNorm>("norm", channels, kEpsilon);
    if (info().num_classes > 0) {
      head_ = Add<ClassifierHead>("head", channels, info().num_classes);
    }
  }

  WeightNames weight_names() const override {
    return {.ignored_suffixes = {"relative_position_index", "attn_mask"}};
  }

 private:
  // `head.fc`, as timm names it.
  class ClassifierHead final : public Layer {
   public:
    ClassifierHead(int64_t channels, int64_t classes) : fc_(Add<Linear>("fc", channels, classes)) {
      fc_->KeepPrecision();
    }
    at::Tensor forward(const at::Tensor& pooled) const { return fc_->forward(pooled); }

   private:
    const std::shared_ptr<Linear> fc_;
  };

  static ModelInfo Describe(const SwinConfig& config, const ModelDescription& description) {
    const int64_t stages = static_cast<int64_t>(config.depths.size());
    ModelInfo info = DescribeClassifier(
        description, {.side = config.image_side, .num_classes = config.num_classes},
        config.channels << (stages - 1));
    CheckDivides(info, kPatch);
    for (int64_t i = 0; i < stages; ++i) {
      info.features.push_back({config.channels << i, kPatch << i});
    }
    return info;
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override {
    return patch_embed_->forward(pixels);
  }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                      ForwardContext& context) const override {
    return (*layers_)[stage].forward(std::move(tokens), before, context,
                                     "layers." + std::to_string(stage));
  }

  at::Tensor RunHead(const at::Tensor& tokens) const override {
    const at::Tensor pooled = norm_->forward(tokens).mean(1);
    return head_ ? head_->forward(pooled) : pooled;
  }

  const std::shared_ptr<PatchEmbed> patch_embed_;
  const std::shared_ptr<LayerList<Stage>> layers_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<ClassifierHead> head_;  // null where the model gives features
};

}  // namespace

SwinConfig Shrunk(SwinConfig config) {
  config.channels = 8 * config.heads.front();
  config.depths.assign(config.depths.size(), 2);
  return config;
}

BackboneEntry SwinVariant(std::string name, std::string summary, const SwinConfig& config) {
  return Variant<Swin>(std::move(name), std::move(summary), config);
}

void RegisterSwin(BackboneRegistry& registry) {
  auto add = [&registry](std::string name, std::string summary, const SwinConfig& config) {
    registry.Add(SwinVariant(std::move(name), std::move(summary), config));
  };
  add("swin_tiny_patch4_window7_224", "Swin-T, 28.3 M parameters",
      {.channels = 96, .depths = {2, 2, 6, 2}, .heads = {3, 6, 12, 24}});
  add("swin_base_patch4_window7_224", "Swin-B, 87.8 M parameters",
      {.channels = 128, .depths = {2, 2, 18, 2}, .heads = {4, 8, 16, 32}});
  add("swin_tiny_heads4_224", "Swin-T with 4, 8, 16 and 32 heads, 28.3 M parameters",
      {.channels = 96, .depths = {2, 2, 6, 2}, .heads = {4, 8, 16, 32}});
  add("swin_tiny_32", "Swin for 32-pixel images, three stages, 5.0 M parameters",
      {.image_side = 32,
       .window = 4,
       .channels = 96,
       .depths = {2, 2, 2},
       .heads = {3, 6, 12},
       .num_classes = 10});
}

}  // namespace fovea::models
