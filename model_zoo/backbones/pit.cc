// PiT, the pooling-based vision transformer: three stages of a ViT with its class token, between
// which the map is halved and the channels doubled.
//   Heo et al., ICCV 2021 (Rethinking Spatial Dimensions of Vision Transformers). Code followed:
//   timm 1.0 (pit.py), whose names these are: patches of 14 pixels every 7, which overlap and leave
//   out what does not fill one; the map is pooled by a depth-wise convolution, the class token goes
//   through a linear layer; only the class token is normalised at the end.
//   Different here: timm does not interpolate the position embedding for other image sizes; here it
//   is as a ViT's is.
#include <ATen/ATen.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/position_embedding.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr size_t kStages = 3;

struct PitConfig {
  int64_t patch = 0;
  int64_t stride = 0;  // of the patches
  int64_t head_dim = 0;
  std::array<int64_t, kStages> depths;
  std::array<int64_t, kStages> heads;

  int64_t Channels(size_t stage) const { return head_dim * heads.at(stage); }
};

PitConfig Shrunk(PitConfig config) {
  config.head_dim = 8;
  config.depths = {2, 2, 2};
  return config;
}

// The cut into patches, `conv`.
class ConvEmbedding final : public Layer {
 public:
  explicit ConvEmbedding(const PitConfig& config)
      : conv_(Add<Conv2d>(
            "conv", Conv2dOptions::Square(3, config.Channels(0), config.patch, config.stride))) {}
  at::Tensor forward(const at::Tensor& pixels) const {
    return conv_->forward(pixels.to(activations()));
  }

 private:
  const std::shared_ptr<Conv2d> conv_;
};

// Between two stages: `conv` for the map, `fc` for the class token.
class Pooling final : public Layer {
 public:
  Pooling(int64_t in, int64_t out)
      : conv_(Add<Conv2d>("conv", Conv2dOptions::Square(in, out, 3, 2, 1).Groups(in))),
        fc_(Add<Linear>("fc", in, out)) {}

  // tokens [B, 1 + h*w, in] of the grid before -> [B, Pooled(before).tokens(), out].
  at::Tensor forward(const at::Tensor& tokens, const Grid& before) const {
    const at::Tensor map = conv_->forward(TokensToMap(tokens, before.height, before.width));
    return at::cat({fc_->forward(tokens.narrow(1, 0, 1)), MapToTokens(map)}, 1);
  }

  static Grid Pooled(const Grid& grid) {
    return {.height = (grid.height + 1) / 2, .width = (grid.width + 1) / 2, .prefix_tokens = 1};
  }

 private:
  const std::shared_ptr<Conv2d> conv_;
  const std::shared_ptr<Linear> fc_;
};

class Stage final : public Layer {
 public:
  Stage(const PitConfig& config, size_t stage, const Grid& grid, const AttentionFactory& attention)
      : grid_(grid) {
    const int64_t channels = config.Channels(stage);
    if (stage > 0) pool_ = Add<Pooling>("pool", config.Channels(stage - 1), channels);
    blocks_ = Add<TransformerBlocks>(
        "blocks", config.depths.at(stage),
        TransformerBlockOptions{.channels = channels, .mlp_hidden = 4 * channels},
        [&](int64_t block) {
          return attention.Module({.channels = channels,
                                   .heads = config.heads.at(stage),
                                   .grid = grid,
                                   .block = block});
        });
  }

  // tokens of the stage before, on its grid; undefined when the context stopped the pass.
  at::Tensor forward(at::Tensor tokens, const Grid& before, ForwardContext& context,
                     const std::string& name) const {
    if (pool_) tokens = pool_->forward(tokens, before);
    return blocks_->forward(std::move(tokens), grid_, context, name + ".blocks");
  }

 private:
  const Grid grid_;
  std::shared_ptr<Pooling> pool_;  // null in the first stage
  std::shared_ptr<TransformerBlocks> blocks_;
};

class Pit final : public StagedBackbone {
 public:
  Pit(const PitConfig& config, const ModelDescription& description)
      : StagedBackbone(Describe(config, description), description,
                       std::vector<PublishedStage>(kStages, PublishedStage{.text = "dense"})),
        patch_embed_(Add<ConvEmbedding>("patch_embed", config)) {
    Grid grid = {.height = (info().image_height - config.patch) / config.stride + 1,
                 .width = (info().image_width - config.patch) / config.stride + 1,
                 .prefix_tokens = 1};
    pos_embed_ = AddSizedParameter("pos_embed", {1, config.Channels(0), grid.height, grid.width});
    cls_token_ = AddParameter("cls_token", {1, 1, config.Channels(0)});
    transformers_ = Add<LayerList<Stage>>("transformers");
    for (size_t i = 0; i < kStages; ++i) {
      if (i > 0) grid = Pooling::Pooled(grid);
      transformers_->Emplace(config, i, grid, attentions().Stage(i, MakeSelfAttention));
      AddGrid(grid);
    }
    AddHead(config.Channels(kStages - 1));
  }

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    if (parameter != "pos_embed") return stored;
    return ResizePositionMap(stored, {grid(0).height, grid(0).width});
  }

  void Prepare(const Placement& placement) override {
    Layer::Prepare(placement);
    pos_embed_.set_data(pos_embed_.contiguous(at::MemoryFormat::ChannelsLast));  // as the map is
  }

 private:
  static ModelInfo Describe(const PitConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(description, {}, config.Channels(kStages - 1));
    TORCH_CHECK_VALUE(info.image_height >= config.patch && info.image_width >= config.patch,
                      info.backbone, " cuts images into patches of ", config.patch, " pixels, and ",
                      info.image_height, "x", info.image_width, " holds none");
    for (size_t i = 0; i < kStages; ++i) {
      info.features.push_back({config.Channels(i), config.stride << i});
    }
    return info;
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override {
    const at::Tensor map = patch_embed_->forward(pixels).add_(pos_embed_);
    return at::cat({cls_token_.expand({pixels.size(0), -1, -1}), MapToTokens(map)}, 1);
  }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                      ForwardContext& context) const override {
    return (*transformers_)[stage].forward(std::move(tokens), before, context,
                                           "transformers." + std::to_string(stage));
  }

  const std::shared_ptr<ConvEmbedding> patch_embed_;
  at::Tensor pos_embed_;
  at::Tensor cls_token_;
  std::shared_ptr<LayerList<Stage>> transformers_;
};

}  // namespace

void RegisterPit(BackboneRegistry& registry) {
  // 73,764,840 parameters; KVT's table 1 says 74 M.
  registry.Add(Variant<Pit>(
      "pit_b_224", "PiT-B, 73.8 M parameters",
      PitConfig{
          .patch = 14, .stride = 7, .head_dim = 64, .depths = {3, 6, 4}, .heads = {4, 8, 16}}));
}

}  // namespace fovea::models
