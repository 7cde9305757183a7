// Twins-SVT: blocks that attend within windows take turns with blocks whose queries see the whole
// map through sub-sampled keys.
//   Chu et al., NeurIPS 2021, section 3.2: locally-grouped self-attention (LSA) and global
//   sub-sampled attention (GSA), one block of each in turn; a conditional positional encoding (a
//   depth-wise convolution, Chu et al. 2021, CPVT) behind the first block of each stage. Code
//   followed: timm 1.0 (twins.py), whose names these are. LayerNorm epsilon 1e-6 in the blocks and
//   at the end, 1e-5 behind patches and sub-sampled keys. A map that the windows do not divide is
//   padded with zero tokens before the projection, which take part.
#include <ATen/ATen.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernels/vision/rp_cpe/op.h"
#include "model_zoo/attention/padded_map.h"
#include "model_zoo/attention/windows.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr size_t kStages = 4;
constexpr int64_t kPatch = 4;
constexpr int64_t kStride = 32;  // of the last stage; in every one also that of the keys
constexpr int64_t kWindow = 7;

struct TwinsConfig {
  int64_t head_dim = 32;
  std::array<int64_t, kStages> depths;
  std::array<int64_t, kStages> heads;

  int64_t Channels(size_t stage) const { return head_dim * heads.at(stage); }
};

TwinsConfig Shrunk(TwinsConfig config) {
  config.head_dim = 8;
  config.depths = {2, 2, 2, 2};
  return config;
}

int64_t StrideOf(size_t stage) { return kPatch << stage; }

// LSA: attention within windows of 7x7 tokens.
class LocalAttention final : public AttentionModule {
 public:
  LocalAttention(const ModuleSite& site, const AttentionFactory& cores)
      : heads_(site.heads),
        padded_(site.grid, {kWindow, kWindow}),
        windows_(padded_.size(), {kWindow, kWindow}),
        core_(cores.Core({.head_dim = site.channels / site.heads, .keys = windows_.tokens()})),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor qkv = Project(tokens);
    tokens.reset();
    const at::Tensor mixed = core_->AttendWindows(qkv[0], qkv[1], qkv[2], windows_);
    qkv.reset();
    return proj_->forward(padded_.Crop(mixed.permute({0, 2, 3, 1, 4}).flatten(3)));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    return padded_.CropWeights(core_->MapWindows(qkv[0], qkv[1], windows_));
  }

 private:
  // [3, B, heads, height, width, head_dim] of the padded map.
  at::Tensor Project(const at::Tensor& tokens) const {
    return SplitQkv(qkv_->forward(padded_.Pad(tokens)), heads_);
  }

  const int64_t heads_;
  const PaddedMap padded_;
  Windows windows_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
};

// GSA: every token attends keys that each stand for `reduction` x `reduction` tokens.
class SubSampledAttention final : public AttentionModule {
 public:
  SubSampledAttention(const ModuleSite& site, int64_t reduction, const AttentionFactory& cores)
      : heads_(site.heads),
        reduction_(reduction),
        core_(cores.Core({.head_dim = site.channels / site.heads,
                          .keys = (site.grid.height / reduction) * (site.grid.width / reduction)})),
        q_(Add<Linear>("q", site.channels, site.channels, site.qkv_bias)),
        kv_(Add<Linear>("kv", site.channels, 2 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)) {
    if (reduction > 1) {
      sr_ = Add<Conv2d>("sr",
                        Conv2dOptions::Square(site.channels, site.channels, reduction, reduction));
      norm_ = Add<LayerNorm>("norm", site.channels, 1e-5);
    }
  }

  at::Tensor forward(at::Tensor tokens, const Grid& grid) const override {
    at::Tensor key_value = KeyValue(tokens, grid), query = Query(tokens);
    tokens.reset();
    const at::Tensor mixed = core_->Attend(query, key_value[0], key_value[1]);
    key_value.reset();
    query.reset();
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

  // A key's weight is shared out evenly among the tokens that it stands for.
  at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor weights = core_->Map(Query(tokens), KeyValue(tokens, grid)[0]);
    const int64_t n = reduction_;
    return weights.unflatten(3, {grid.height / n, 1, grid.width / n, 1})
        .expand({-1, -1, -1, -1, n, -1, n})
        .flatten(3)
        .div(n * n);
  }

 private:
  at::Tensor Query(const at::Tensor& tokens) const {
    return q_->forward(tokens).unflatten(2, {heads_, -1}).transpose(1, 2);
  }

  // [2, B, heads, keys, head_dim]
  at::Tensor KeyValue(const at::Tensor& tokens, const Grid& grid) const {
    const at::Tensor sampled =
        sr_ ? norm_->forward(
                  MapToTokens(sr_->forward(TokensToMap(tokens, grid.height, grid.width))))
            : tokens;
    return kv_->forward(sampled).unflatten(2, {2, heads_, -1}).permute({2, 0, 3, 1, 4});
  }

  const int64_t heads_;
  const int64_t reduction_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> q_;
  const std::shared_ptr<Linear> kv_;
  const std::shared_ptr<Linear> proj_;
  std::shared_ptr<Conv2d> sr_;       // null where nothing is sub-sampled
  std::shared_ptr<LayerNorm> norm_;  // likewise
};

// The cut of a map, or of an image, into patches.
class PatchConv final : public Layer {
 public:
  PatchConv(int64_t in, int64_t out, int64_t patch)
      : proj_(Add<Conv2d>("proj", Conv2dOptions::Square(in, out, patch, patch))),
        norm_(Add<LayerNorm>("norm", out, 1e-5)) {}

  at::Tensor forward(const at::Tensor& map) const {
    return norm_->forward(MapToTokens(proj_->forward(map)));
  }

 private:
  const std::shared_ptr<Conv2d> proj_;
  const std::shared_ptr<LayerNorm> norm_;
};

// The positional encoding: x + a depth-wise 3x3 convolution of x.
class PositionConv final : public Layer {
 public:
  explicit PositionConv(int64_t channels)
      : weight_(AddParameter("weight", {channels, 1, 3, 3})),
        bias_(AddParameter("bias", {channels})) {}

  at::Tensor forward(const at::Tensor& tokens, const Grid& grid) const {
    const at::Tensor map = TokensToMap(tokens, grid.height, grid.width);
    return MapToTokens(
        kernels::RpCpe(map, weight_.transpose(0, 1), bias_.unsqueeze(0)));  // of one branch
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

class Twins final : public StagedBackbone {
 public:
  Twins(const TwinsConfig& config, const ModelDescription& description)
      : StagedBackbone(
            Describe(config, description), description,
            std::vector<PublishedStage>(kStages, PublishedStage{.text = "dense", .own = ""})),
        patch_embeds_(Add<LayerList<PatchConv>>("patch_embeds")),
        blocks_(Add<LayerList<LayerList<TransformerBlock>>>("blocks")),
        pos_block_(Add<LayerList<PositionConv>>("pos_block")) {
    for (size_t i = 0; i < kStages; ++i) AddStage(config, i);
    AddHead(config.Channels(kStages - 1));
  }

  WeightNames weight_names() const override {
    return {.renamed = {{"pos_block.0.proj.0.", "pos_block.0."},
                        {"pos_block.1.proj.0.", "pos_block.1."},
                        {"pos_block.2.proj.0.", "pos_block.2."},
                        {"pos_block.3.proj.0.", "pos_block.3."}}};
  }

 private:
  static ModelInfo Describe(const TwinsConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(description, {}, config.Channels(kStages - 1));
    CheckDivides(info, kStride);
    for (size_t i = 0; i < kStages; ++i) {
      info.features.push_back({config.Channels(i), StrideOf(i)});
    }
    return info;
  }

  void AddStage(const TwinsConfig& config, size_t stage) {
    const int64_t channels = config.Channels(stage);
    const Grid grid = {.height = info().image_height / StrideOf(stage),
                       .width = info().image_width / StrideOf(stage)};
    AddGrid(grid);
    patch_embeds_->Emplace(stage == 0 ? 3 : config.Channels(stage - 1), channels,
                           stage == 0 ? kPatch : 2);
    const AttentionFactory attention =
        attentions().Stage(stage,
                           [reduction = kStride / StrideOf(stage)](
                               const AttentionSpec& /*spec*/, const ModuleSite& site,
                               const AttentionFactory& cores) -> std::shared_ptr<AttentionModule> {
                             if (site.block % 2 == 0)
                               return std::make_shared<LocalAttention>(site, cores);
                             return std::make_shared<SubSampledAttention>(site, reduction, cores);
                           });
    LayerList<TransformerBlock>& blocks = blocks_->Emplace();
    for (int64_t block = 0; block < config.depths.at(stage); ++block) {
      blocks.Emplace(TransformerBlockOptions{.channels = channels, .mlp_hidden = 4 * channels},
                     attention.Module({.channels = channels,
                                       .heads = config.heads.at(stage),
                                       .grid = grid,
                                       .block = block,
                                       .window = kWindow}));
    }
    pos_block_->Emplace(channels);
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override {
    return (*patch_embeds_)[0].forward(pixels.to(activations()));
  }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                      ForwardContext& context) const override {
    if (stage > 0) {
      tokens = (*patch_embeds_)[stage].forward(TokensToMap(tokens, before.height, before.width));
    }
    const LayerList<TransformerBlock>& blocks = (*blocks_)[stage];
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (context.ShouldStop()) return {};
      tokens = blocks[i].forward(std::move(tokens), grid(stage), context,
                                 "blocks." + std::to_string(stage) + "." + std::to_string(i));
      if (i == 0) tokens = (*pos_block_)[stage].forward(tokens, grid(stage));
    }
    return tokens;
  }

  const std::shared_ptr<LayerList<PatchConv>> patch_embeds_;
  const std::shared_ptr<LayerList<LayerList<TransformerBlock>>> blocks_;
  const std::shared_ptr<LayerList<PositionConv>> pos_block_;
};

}  // namespace

void RegisterTwins(BackboneRegistry& registry) {
  // 56,070,952 parameters; KVT's table 1 says 56 M.
  registry.Add(Variant<Twins>("twins_svt_base", "Twins-SVT-B, 56.1 M parameters",
                              TwinsConfig{.depths = {2, 2, 18, 2}, .heads = {3, 6, 12, 24}}));
}

}  // namespace fovea::models
