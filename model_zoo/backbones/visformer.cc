// Visformer: a stage of convolutions, then two of attention over maps, with batch norms throughout.
//   Chen et al., ICCV 2021. Code followed: timm 1.0 (visformer.py), whose names these are: 1x1
//   convolutions without a bias for all projections and perceptrons, a grouped 3x3 one within the
//   perceptrons of the first stage, a position embedding for each stage.
//   Different here: the 1x1 convolutions are linear layers over tokens; the norm before a
//   perceptron, and the last one, are folded into the linear layer behind them. timm does not
//   interpolate these position embeddings for other image sizes; here they are as a ViT's are.
#include <ATen/ATen.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/attend.h"
#include "model_zoo/layers/batch_norm.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/normed_conv2d.h"
#include "model_zoo/layers/position_embedding.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr int64_t kStages = 3;
constexpr int64_t kStride = 32;  // of the last stage
constexpr int64_t kGroups = 8;   // of the first stage's 3x3 convolutions

struct VisformerConfig {
  int64_t stem_channels = 0;
  int64_t channels = 0;  // of the first stage, doubled by each next one
  int64_t heads = 0;     // of every stage
  std::array<int64_t, kStages> depths;
  int64_t mlp_ratio = 4;  // of the stages that attend; 2 where the perceptron has a 3x3 convolution
};

VisformerConfig Shrunk(VisformerConfig config) {
  config.stem_channels = 8;
  config.channels = 4 * config.heads;
  config.depths = {2, 2, 2};
  return config;
}

// The perceptron of a block; tokens in and out.
class SpatialMlp final : public Layer {
 public:
  SpatialMlp(int64_t channels, int64_t hidden, bool spatial)
      : conv1_(Add<Linear>("conv1", at::IntArrayRef{hidden, channels, 1, 1}, /*bias=*/false)) {
    if (spatial) {
      conv2_ = Add<Conv2d>("conv2",
                           Conv2dOptions::Square(hidden, hidden, 3, 1, 1).Groups(kGroups).NoBias());
    }
    conv3_ = Add<Linear>("conv3", at::IntArrayRef{channels, hidden, 1, 1}, /*bias=*/false);
  }

  Linear& first() { return *conv1_; }

  at::Tensor forward(at::Tensor tokens, const Grid& grid) const {
    return conv3_->forward(Hidden(std::move(tokens), grid));
  }
  // residual + forward(tokens, grid)
  at::Tensor ForwardAdd(at::Tensor tokens, const Grid& grid, const at::Tensor& residual) const {
    return conv3_->ForwardAdd(Hidden(std::move(tokens), grid), residual);
  }

 private:
  at::Tensor Hidden(at::Tensor tokens, const Grid& grid) const {
    at::Tensor hidden = conv1_->ForwardGelu(tokens);
    tokens.reset();
    if (!conv2_) return hidden;
    hidden = conv2_->forward(TokensToMap(hidden, grid.height, grid.width));
    return MapToTokens(at::gelu(hidden));
  }

  const std::shared_ptr<Linear> conv1_;
  std::shared_ptr<Conv2d> conv2_;  // null where the perceptron is not spatial
  std::shared_ptr<Linear> conv3_;
};

class Block final : public Layer {
 public:
  // `attention` is null in the stage that has none.
  Block(int64_t channels, int64_t hidden, std::shared_ptr<AttentionModule> attention) {
    if (attention) {
      norm1_ = Add<BatchNorm2d>("norm1", channels);
      attn_ = register_module("attn", std::move(attention));
    }
    norm2_ = Add<BatchNorm2d>("norm2", channels);
    mlp_ = Add<SpatialMlp>("mlp", channels, hidden, /*spatial=*/attn_ == nullptr);
  }

  // tokens [B, grid.tokens(), channels] -> the same shape; records what TransformerBlock does.
  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const {
    if (attn_) tokens = Attended(tokens, grid, context, name);
    if (!context.Recording()) {
      return mlp_->ForwardAdd(Normalised(*norm2_, tokens, grid), grid, tokens);
    }
    const at::Tensor mlp = mlp_->forward(Normalised(*norm2_, tokens, grid), grid);
    context.Record(name + ".mlp", "output", mlp);
    tokens = tokens + mlp;
    context.Record(name, "output", tokens);
    return tokens;
  }

  // The attention can be anything, so that its norm stays.
  void Prepare(const Placement& placement) override {
    norm2_->FoldInto(mlp_->first());
    Layer::Prepare(placement);
  }

 private:
  static at::Tensor Normalised(const BatchNorm2d& norm, const at::Tensor& tokens,
                               const Grid& grid) {
    return MapToTokens(norm.forward(TokensToMap(tokens, grid.height, grid.width)));
  }

  at::Tensor Attended(const at::Tensor& tokens, const Grid& grid, ForwardContext& context,
                      const std::string& name) const {
    const at::Tensor attention = AttendAndRecordMap(*attn_, Normalised(*norm1_, tokens, grid), grid,
                                                    context, name + ".attn");
    if (context.Recording()) context.Record(name + ".attn", "output", attention);
    return tokens + attention;
  }

  std::shared_ptr<BatchNorm2d> norm1_;     // null without attention
  std::shared_ptr<AttentionModule> attn_;  // null without attention
  std::shared_ptr<BatchNorm2d> norm2_;
  std::shared_ptr<SpatialMlp> mlp_;
};

class Visformer final : public StagedBackbone {
 public:
  Visformer(const VisformerConfig& config, const ModelDescription& description)
      : StagedBackbone(Describe(config, description), description,
                       {PublishedStage::WithoutAttention(),
                        {.text = "dense", .own = ""},
                        {.text = "dense", .own = ""}}),
        stem_(Add<NormedConv2d>("stem", "0", "1",
                                Conv2dOptions::Square(3, config.stem_channels, 7, 2, 3).NoBias())) {
    for (int64_t i = 0; i < kStages; ++i) AddStage(config, i);
    const int64_t channels = config.channels << (kStages - 1);
    norm_ = Add<BatchNorm2d>("norm", channels);
    if (info().num_classes > 0) {
      head_ = Add<Linear>("head", channels, info().num_classes);
      head_->KeepPrecision();
    }
  }

  WeightNames weight_names() const override {
    return {.ignored_suffixes = {"num_batches_tracked"}};
  }

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (parameter == stages_[i].position_name) {
        return ResizePositionMap(stored, {grid(i).height, grid(i).width});
      }
    }
    return stored;
  }

  void Prepare(const Placement& placement) override {
    if (head_) norm_->FoldInto(*head_);  // the mean between them is linear
    Layer::Prepare(placement);
    for (Stage& stage : stages_) {  // as the maps are
      stage.position.set_data(stage.position.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }

 private:
  struct Stage {
    std::shared_ptr<NormedConv2d> embed;
    std::string position_name;
    at::Tensor position;  // [1, channels, height, width]
    std::shared_ptr<LayerList<Block>> blocks;
  };

  static ModelInfo Describe(const VisformerConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(description, {}, config.channels << (kStages - 1));
    CheckDivides(info, kStride);
    for (int64_t i = 0; i < kStages; ++i) {
      info.features.push_back({config.channels << i, StrideOf(i)});
    }
    return info;
  }

  static int64_t StrideOf(int64_t stage) { return kStride >> (kStages - 1 - stage); }

  void AddStage(const VisformerConfig& config, int64_t index) {
    const int64_t channels = config.channels << index;
    const int64_t before = index == 0 ? config.stem_channels : channels / 2;
    const int64_t patch = index == 0 ? 4 : 2;
    const std::string number = std::to_string(index + 1);
    const Grid grid = {.height = info().image_height / StrideOf(index),
                       .width = info().image_width / StrideOf(index)};
    AddGrid(grid);
    Stage stage{.position_name = "pos_embed" + number};
    stage.embed = Add<NormedConv2d>("patch_embed" + number, "proj", "norm",
                                    Conv2dOptions::Square(before, channels, patch, patch));
    stage.position = AddSizedParameter(stage.position_name, {1, channels, grid.height, grid.width});
    stage.blocks = Add<LayerList<Block>>("stage" + number);
    for (int64_t block = 0; block < config.depths[index]; ++block) {
      if (index == 0) {
        stage.blocks->Emplace(channels, 2 * channels, nullptr);
        continue;
      }
      const auto place = static_cast<size_t>(index);
      stage.blocks->Emplace(channels, config.mlp_ratio * channels,
                            attentions()
                                .Stage(place, MakePointwiseSelfAttention)
                                .Module({.channels = channels,
                                         .heads = config.heads,
                                         .grid = grid,
                                         .block = block,
                                         .qkv_bias = false,
                                         .proj_bias = false}));
    }
    stages_.push_back(std::move(stage));
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override {
    return stem_->forward(pixels.to(activations())).relu_();
  }

  // `input` of the first stage is the stem's map.
  at::Tensor RunStage(size_t index, at::Tensor input, const Grid& before,
                      ForwardContext& context) const override {
    const Stage& stage = stages_[index];
    if (index > 0) input = TokensToMap(input, before.height, before.width);
    input = stage.embed->forward(input).add_(stage.position);
    at::Tensor tokens = MapToTokens(std::exchange(input, {}));
    const std::string name = "stage" + std::to_string(index + 1) + ".";
    for (size_t i = 0; i < stage.blocks->size(); ++i) {
      if (context.ShouldStop()) return {};
      tokens = (*stage.blocks)[i].forward(std::move(tokens), grid(index), context,
                                          name + std::to_string(i));
    }
    return tokens;
  }

  at::Tensor RunHead(const at::Tensor& tokens) const override {
    const Grid& last = grid(kStages - 1);
    const at::Tensor map = TokensToMap(tokens, last.height, last.width);
    const at::Tensor pooled = norm_->forward(map).mean({2, 3});
    return head_ ? head_->forward(pooled) : pooled;
  }

  const std::shared_ptr<NormedConv2d> stem_;
  std::vector<Stage> stages_;
  std::shared_ptr<BatchNorm2d> norm_;
  std::shared_ptr<Linear> head_;  // null where the model gives features
};

}  // namespace

void RegisterVisformer(BackboneRegistry& registry) {
  // 10,321,368 parameters; KVT's table 1 says 10 M.
  const VisformerConfig tiny{.stem_channels = 16, .channels = 96, .heads = 3, .depths = {7, 4, 4}};
  registry.Add(Variant<Visformer>(
      "visformer_tiny", "Visformer-Ti: convolutions, then attention; 10.3 M parameters", tiny));
}

}  // namespace fovea::models
