// MetaFormer: four stages of blocks around any token mixer. CAFormer mixes by separable
// convolutions in the first two stages and by self-attention in the others; SKAFormer and
// CSKAFormer have static keys in the second.
//   CAFormer: MetaFormer Baselines for Vision, Yu et al. 2022. Code followed: timm 1.0
//   (metaformer.py), whose names these are: LayerNorm without a bias and epsilon 1e-6, no biases in
//   mixers and MLPs, StarReLU with a learned scale and bias, learned factors on the residual in
//   stages 3 and 4, a classifier of two layers with a squared ReLU.
//   SKAFormer, CSKAFormer: Static Key Attention in Vision, section 5.1 and table 5: stage 2 is the
//   second of four (the "nine ConvFormer layers" of its text fit no stage of CAFormer that has
//   convolutions). Their other placements are texts: `ska@3` in caformer_s18.
//   In detectors and segmenters static keys attend within windows of the map that they were
//   published for, 28x28 in the second stage: our choice, as the paper does not say (its section
//   5.2 keeps CSKA at 800x1333).
//   Different here: the map is kept as tokens in every stage. The MLPs of stages 1 and 2 are
//   published as 1x1 convolutions and computed as the linear layers that they are.
#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/attend.h"
#include "model_zoo/blocks/run_blocks.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/conv_embed.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/star_relu.h"
#include "model_zoo/layers/token_map.h"
#include "model_zoo/weights/random.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr int64_t kMlpRatio = 4;
constexpr int64_t kPublishedSide = 224;
constexpr int64_t kSmallestSide = 3;         // pixels: with the stem's padding, one step of it
constexpr int64_t kConvolutionalStages = 2;  // published with convolutions for MLPs

struct MetaFormerConfig {
  std::vector<int64_t> depths;
  std::vector<int64_t> heads;
  int64_t head_channels = 32;
  std::vector<PublishedStage> attention;

  int64_t stages() const { return static_cast<int64_t>(depths.size()); }
  int64_t channels(int64_t stage) const { return heads[stage] * head_channels; }
};

MetaFormerConfig Shrunk(MetaFormerConfig config) {
  config.head_channels = 8;
  config.depths.assign(config.depths.size(), 1);
  config.depths.front() = 2;
  return config;
}

// The norm and the convolution of the stem (norm last) and between stages (norm first).
class Downsampling final : public Layer {
 public:
  Downsampling(const Conv2dOptions& options, bool norm_first)
      : options_(options),
        norm_first_(norm_first),
        norm_(Add<LayerNorm>("norm", norm_first ? options.in : options.out, kEpsilon,
                             /*bias=*/false)),
        conv_(Add<Conv2d>("conv", options)) {}

  // A map [N, in, height, width], its channels contiguous in memory -> tokens.
  at::Tensor forward(const at::Tensor& map) const {
    if (norm_first_) return ToTokens(conv_->forward(Normalised(map)));
    return norm_->forward(ToTokens(conv_->forward(map)));
  }

  Grid After(const Grid& grid) const { return ConvEmbed::Embedded(grid, options_); }

 private:
  static at::Tensor ToTokens(const at::Tensor& map) { return map.flatten(2).transpose(1, 2); }
  at::Tensor Normalised(const at::Tensor& map) const {
    return norm_->forward(map.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }

  const Conv2dOptions options_;
  const bool norm_first_;
  const std::shared_ptr<LayerNorm> norm_;
  const std::shared_ptr<Conv2d> conv_;
};

class StarReluMlp final : public Layer {
 public:
  // `kernel`: what follows [out, in] in the weights' published shapes.
  StarReluMlp(int64_t channels, const std::vector<int64_t>& kernel)
      : fc1_(Add<Linear>("fc1", Shape(kMlpRatio * channels, channels, kernel), /*bias=*/false)),
        act_(Add<StarRelu>("act")),
        fc2_(Add<Linear>("fc2", Shape(channels, kMlpRatio * channels, kernel), /*bias=*/false)) {}

  at::Tensor forward(const at::Tensor& input) const {
    return fc2_->forward(act_->forward(fc1_->forward(input)));
  }
  // The two layers behind `norm`; the second adds `residual_scale` times what the first is given.
  std::array<LinearLink, 2> Links(const LayerNorm& norm, const at::Tensor& residual_scale) const {
    return {
        LinearLink{.linear = fc1_.get(), .norm = &norm, .star_relu = act_.get()},
        LinearLink{
            .linear = fc2_.get(), .residual = Residual::kInput, .residual_scale = residual_scale}};
  }

 private:
  static std::vector<int64_t> Shape(int64_t out, int64_t in, const std::vector<int64_t>& kernel) {
    std::vector<int64_t> shape = {out, in};
    shape.insert(shape.end(), kernel.begin(), kernel.end());
    return shape;
  }

  const std::shared_ptr<Linear> fc1_;
  const std::shared_ptr<StarRelu> act_;
  const std::shared_ptr<Linear> fc2_;
};

// A learned factor for each channel: `scale` [channels].
class Scale final : public Layer {
 public:
  explicit Scale(int64_t channels) : scale_(AddParameter("scale", {channels})) {}
  at::Tensor forward(const at::Tensor& input) const {
    return input * scale_.to(input.scalar_type());
  }
  at::Tensor ForwardAdd(const at::Tensor& input, const at::Tensor& branch) const {
    return at::addcmul(branch, input, scale_.to(input.scalar_type()));
  }
  const at::Tensor& scale() const { return scale_; }

  // On the CPU in fp32.
  void Prepare(const Placement& placement) override { Layer::Prepare(InFp32OnCpu(placement)); }

 private:
  at::Tensor scale_;
};

// scale1 x + mixer(norm1(x)), then scale2 x + mlp(norm2(x)).
class Block final : public Layer {
 public:
  Block(int64_t channels, bool convolutional, std::shared_ptr<AttentionModule> mixer)
      : norm1_(Add<LayerNorm>("norm1", channels, kEpsilon, /*bias=*/false)),
        mixer_(register_module("token_mixer", std::move(mixer))),
        norm2_(Add<LayerNorm>("norm2", channels, kEpsilon, /*bias=*/false)),
        mlp_(Add<StarReluMlp>(
            "mlp", channels, convolutional ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{})) {
    if (convolutional) return;
    res_scale1_ = Add<Scale>("res_scale1", channels);
    res_scale2_ = Add<Scale>("res_scale2", channels);
  }

  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const {
    if (!context.Recording()) {
      const auto scale = [](const std::shared_ptr<Scale>& of) {
        return of ? of->scale() : at::Tensor();
      };
      return AttendThenMlp(*norm1_, *mixer_, mlp_->Links(*norm2_, scale(res_scale2_)),
                           std::move(tokens), grid, scale(res_scale1_));
    }
    const at::Tensor mixed =
        AttendAndRecordMap(*mixer_, norm1_->forward(tokens), grid, context, name + ".attn");
    const at::Tensor attended =
        res_scale1_ ? res_scale1_->ForwardAdd(tokens, mixed) : tokens + mixed;
    // Both branches as they arrive in the block's output, which is then the sum of the residual and
    // of what is recorded.
    context.Record(name + ".attn", "output", res_scale2_ ? res_scale2_->forward(mixed) : mixed);
    const at::Tensor mlp = mlp_->forward(norm2_->forward(attended));
    context.Record(name + ".mlp", "output", mlp);
    at::Tensor output = res_scale2_ ? res_scale2_->ForwardAdd(attended, mlp) : attended + mlp;
    context.Record(name, "output", output);
    return output;
  }

 private:
  const std::shared_ptr<LayerNorm> norm1_;
  const std::shared_ptr<AttentionModule> mixer_;
  const std::shared_ptr<LayerNorm> norm2_;
  const std::shared_ptr<StarReluMlp> mlp_;
  std::shared_ptr<Scale> res_scale1_;  // null in the first two stages
  std::shared_ptr<Scale> res_scale2_;
};

class Stage final : public Layer {
 public:
  // `trained`: the grid before it at the published size, for detectors and segmenters; 0x0 for
  // others.
  Stage(const MetaFormerConfig& config, int64_t stage, const Grid& before, const Grid& trained,
        const AttentionFactory& attention)
      : grid_(before), trained_(trained) {
    const int64_t channels = config.channels(stage);
    if (stage > 0) {
      downsample_ = Add<Downsampling>(
          "downsample",
          Conv2dOptions::Square(config.channels(stage - 1), channels, /*side=*/3, /*stride=*/2,
                                /*padding=*/1),
          /*norm_first=*/true);
      grid_ = downsample_->After(before);
      if (trained != Grid()) trained_ = downsample_->After(trained);
    }
    blocks_ = Add<LayerList<Block>>("blocks");
    for (int64_t i = 0; i < config.depths[stage]; ++i) {
      blocks_->Append(std::make_shared<Block>(channels, stage < kConvolutionalStages,
                                              attention.Module({.channels = channels,
                                                                .heads = config.heads[stage],
                                                                .grid = grid_,
                                                                .block = i,
                                                                .trained = trained_,
                                                                .qkv_bias = false,
                                                                .proj_bias = false})));
    }
  }

  const Grid& grid() const { return grid_; }
  const Grid& trained() const { return trained_; }

  // tokens of the stage before, on its grid; undefined when the context stopped the pass.
  at::Tensor forward(at::Tensor tokens, const Grid& before, ForwardContext& context,
                     const std::string& name) const {
    if (downsample_) {
      tokens = downsample_->forward(TokensToMap(tokens, before.height, before.width));
    }
    return RunBlocks(blocks_->list(), std::move(tokens), grid_, context, name + ".blocks");
  }

 private:
  Grid grid_;
  Grid trained_;
  std::shared_ptr<Downsampling> downsample_;  // null in the first stage
  std::shared_ptr<LayerList<Block>> blocks_;
};

// fc2(norm(relu(fc1(x))^2)).
class MlpClassifier final : public Layer {
 public:
  MlpClassifier(int64_t channels, int64_t classes)
      : fc1_(Add<Linear>("fc1", channels, kMlpRatio * channels)),
        norm_(Add<LayerNorm>("norm", kMlpRatio * channels, kEpsilon)),
        fc2_(Add<Linear>("fc2", kMlpRatio * channels, classes)) {
    fc1_->KeepPrecision();
    fc2_->KeepPrecision();
  }

  at::Tensor forward(const at::Tensor& pooled) const {
    return fc2_->forward(norm_->forward(at::relu(fc1_->forward(pooled)).square()));
  }

 private:
  const std::shared_ptr<Linear> fc1_;
  const std::shared_ptr<LayerNorm> norm_;
  const std::shared_ptr<Linear> fc2_;
};

class Head final : public Layer {
 public:
  Head(int64_t channels, int64_t classes) : norm_(Add<LayerNorm>("norm", channels, kEpsilon)) {
    if (classes > 0) fc_ = Add<MlpClassifier>("fc", channels, classes);
  }

  at::Tensor forward(const at::Tensor& tokens) const {
    const at::Tensor pooled = norm_->forward(tokens.mean(1));
    return fc_ ? fc_->forward(pooled) : pooled;
  }

 private:
  const std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<MlpClassifier> fc_;  // null where the model gives features
};

class MetaFormer final : public StagedBackbone {
 public:
  MetaFormer(const MetaFormerConfig& config, const ModelDescription& description)
      : StagedBackbone(Describe(config, description), description, config.attention),
        stem_(Add<Downsampling>("stem",
                                Conv2dOptions::Square(/*in=*/3, config.channels(0), /*side=*/7,
                                                      /*stride=*/4, /*padding=*/2),
                                /*norm_first=*/false)),
        stages_(Add<LayerList<Stage>>("stages")) {
    Grid grid = stem_->After({.height = info().image_height, .width = info().image_width});
    Grid trained;
    if (description.task != Task::kClassification) {
      trained = stem_->After({.height = kPublishedSide, .width = kPublishedSide});
    }
    for (int64_t i = 0; i < config.stages(); ++i) {
      const Stage& stage =
          stages_->Emplace(config, i, grid, trained, attentions().Stage(i, MakeSelfAttention));
      grid = stage.grid();
      trained = stage.trained();
      AddGrid(grid);
    }
    head_ = Add<Head>("head", config.channels(config.stages() - 1), info().num_classes);
  }

  // timm's: convolutions as linear layers, factors one.
  void Initialise(uint64_t seed) override {
    for (const auto& parameter : named_parameters()) {
      if (parameter.value().dim() == 4) {
        RandomStream(seed, parameter.key()).FillNormal(parameter.value(), 0.02);
      } else {
        InitialiseAsUsual(parameter.key(), parameter.value(), seed);
      }
    }
  }

 private:
  static ModelInfo Describe(const MetaFormerConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(
        description, {.side = kPublishedSide, .preprocessing = {.crop_fraction = 1}},
        config.channels(config.stages() - 1));
    TORCH_CHECK_VALUE(std::min(info.image_height, info.image_width) >= kSmallestSide, info.backbone,
                      " needs images of at least ", kSmallestSide, "x", kSmallestSide,
                      " pixels, not ", info.image_height, "x", info.image_width);
    for (int64_t i = 0; i < config.stages(); ++i) {
      info.features.push_back({config.channels(i), 4 << i});
    }
    return info;
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override {
    return stem_->forward(at::empty_like(pixels, pixels.options().dtype(activations()),
                                         at::MemoryFormat::ChannelsLast)
                              .copy_(pixels));
  }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                      ForwardContext& context) const override {
    return (*stages_)[stage].forward(std::move(tokens), before, context,
                                     "stages." + std::to_string(stage));
  }

  at::Tensor RunHead(const at::Tensor& tokens) const override { return head_->forward(tokens); }

  const std::shared_ptr<Downsampling> stem_;
  const std::shared_ptr<LayerList<Stage>> stages_;
  std::shared_ptr<Head> head_;
};

}  // namespace

void RegisterMetaFormer(BackboneRegistry& registry) {
  const PublishedStage convolution = PublishedStage::Convolution(), self{.text = "dense"};
  auto add = [&](const std::string& prefix, const std::string& summary,
                 const PublishedStage& second) {
    const std::vector<PublishedStage> attention = {convolution, second, self, self};
    registry.Add(Variant<MetaFormer>(
        prefix + "_s18", summary + ", 18 blocks",
        MetaFormerConfig{.depths = {3, 3, 9, 3}, .heads = {2, 4, 10, 16}, .attention = attention}));
    registry.Add(Variant<MetaFormer>(
        prefix + "_b36", summary + ", 36 wide blocks",
        MetaFormerConfig{
            .depths = {3, 12, 18, 3}, .heads = {4, 8, 16, 24}, .attention = attention}));
  };
  add("caformer", "CAFormer: convolutions, then attention", convolution);
  add("skaformer", "CAFormer with static keys in stage 2", {.text = "ska"});
  add("cskaformer", "CAFormer with convolutional static keys in stage 2", {.text = "cska"});
}

}  // namespace fovea::models
