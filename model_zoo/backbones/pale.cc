// Pale Transformer: half of the heads in groups of rows that are spread over the map, half in such
// groups of columns.
//   Wu et al., AAAI 2022 (arXiv 2112.14000). The authors' code, announced for PaddleViT, was never
//   released, so there is nothing to compare with but the paper.
//   Sure, from its abstract and summaries: pales of interlaced rows and columns, on one half of the
//   channels each; queries, keys and values from separable convolutions "following CvT"; 22 M and
//   85 M parameters (Pale-T, Pale-B), 83.4% and 84.9% top-1.
//   Reconstructed without the full text at hand, and held only against those totals: patches are
//   merged by overlapping convolutions (7x7, stride 4, then 3x3, stride 2), each with a LayerNorm;
//   a block is a conditional position encoding (a depth-wise convolution that is added), attention
//   and an MLP of ratio 4, the latter two behind a LayerNorm; pales of 7; widths from 64 or 128,
//   depths 2, 2, 16, 2, heads 2, 4, 8, 16 or twice as many. These count 21.7 M and 85.3 M.
//   Inferred: convolutions are padded as CvT's and CSWin's (2, then 1); the encoding's kernel is
//   3x3 and has a bias; separable convolutions are CvT's (3x3 depth-wise without a bias, batch
//   norm, linear) over the whole map and all channels, of which the heads are then taken (on each
//   half of the channels by itself the models would count 19 M and 76 M); projections have biases;
//   LayerNorm epsilon 1e-5; the classifier is LayerNorm, mean and one linear layer, as CSWin's.
//   Names are ours, those of the projections CvT's.
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/padded_map.h"
#include "model_zoo/attention/windowed_heads.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/run_blocks.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/conv_embed.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/normed_conv2d.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr int64_t kPatch = 4;
constexpr int64_t kPale = 7;
constexpr size_t kStages = 4;

struct PaleConfig {
  int64_t channels = 0;  // of the first stage, doubled by each next one
  std::array<int64_t, kStages> depths = {2, 2, 16, 2};
  std::array<int64_t, kStages> heads;
};

PaleConfig Shrunk(PaleConfig config) {
  config.channels = 8 * config.heads.front();
  config.depths = {1, 1, 2, 1};
  return config;
}

Conv2dOptions DepthWise3x3(int64_t channels) {
  return Conv2dOptions::Square(channels, channels, 3, 1, 1).Groups(channels);
}

class PaleAttention final : public AttentionModule {
 public:
  PaleAttention(const ModuleSite& site, const std::array<int64_t, 2>& pale,
                const AttentionFactory& cores)
      : heads_(site.heads),
        padded_(site.grid, pale),
        interlacing_(pale),
        pales_(Stripes(padded_.size(), pale), site.channels / site.heads, cores),
        query_(AddProjection("q", site)),
        key_(AddProjection("k", site)),
        value_(AddProjection("v", site)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor map = padded_.Pad(tokens);
    tokens.reset();
    at::Tensor query = Project(query_, map), key = Project(key_, map), value = Project(value_, map);
    map.reset();
    const at::Tensor mixed = pales_.Attend(query, key, value);
    for (at::Tensor* projected : {&query, &key, &value}) projected->reset();
    return proj_->forward(padded_.Crop(interlacing_.Spread(mixed)));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor map = padded_.Pad(tokens);
    const at::Tensor weights = pales_.Map(Project(query_, map), Project(key_, map));
    return padded_.CropWeights(interlacing_.SpreadWeights(weights, padded_.size()));
  }

 private:
  struct Projection {
    std::shared_ptr<NormedConv2d> depth_wise;
    std::shared_ptr<Linear> linear;
  };
  Projection AddProjection(const std::string& letter, const ModuleSite& site) {
    return {Add<NormedConv2d>("conv_proj_" + letter, "conv", "bn",
                              DepthWise3x3(site.channels).NoBias()),
            Add<Linear>("proj_" + letter, site.channels, site.channels, site.qkv_bias)};
  }

  // map [B, height, width, C] -> [B, heads, height, width, D], pale by pale.
  at::Tensor Project(const Projection& projection, const at::Tensor& map) const {
    const at::Tensor gathered = interlacing_.Gather(
        projection.depth_wise->forward(map.permute({0, 3, 1, 2})).permute({0, 2, 3, 1}));
    return projection.linear->forward(gathered).unflatten(3, {heads_, -1}).permute({0, 3, 1, 2, 4});
  }

  const int64_t heads_;
  const PaddedMap padded_;
  const Interlacing interlacing_;
  WindowedHeads pales_;
  const Projection query_;
  const Projection key_;
  const Projection value_;
  const std::shared_ptr<Linear> proj_;
};

std::shared_ptr<AttentionModule> MakePaleAttention(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores) {
  RefusePrefixTokens(site);
  RefuseUnevenHeads(site, 2);
  return std::make_shared<PaleAttention>(
      site, WithinMap(spec.window.value_or(site.window), site.grid), cores);
}

// A transformer block behind a conditional position encoding.
class PaleBlock final : public Layer {
 public:
  PaleBlock(const TransformerBlockOptions& options, std::shared_ptr<AttentionModule> attention)
      : cpe_(Add<Conv2d>("cpe", DepthWise3x3(options.channels))),
        block_(Add<TransformerBlock>("block", options, std::move(attention))) {}

  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const {
    tokens = tokens + cpe_->forward(TokensToMap(tokens, grid.height, grid.width))
                          .permute({0, 2, 3, 1})
                          .flatten(1, 2);
    return block_->forward(std::move(tokens), grid, context, name);
  }

 private:
  const std::shared_ptr<Conv2d> cpe_;
  const std::shared_ptr<TransformerBlock> block_;
};

// Overlapping patches: of the image, then of the stage before, which has half of the channels.
Conv2dOptions Embedding(int64_t channels, size_t stage) {
  return stage == 0 ? Conv2dOptions::Square(3, channels, 7, kPatch, 2)
                    : Conv2dOptions::Square(channels / 2, channels, 3, 2, 1);
}

class Stage final : public Layer {
 public:
  // `before`: the size of the map that its embedding is given.
  Stage(const PaleConfig& config, size_t stage, const Grid& before,
        const AttentionFactory& attention)
      : channels_(config.channels << stage),
        embed_(Add<ConvEmbed>("embed", Embedding(channels_, stage), kEpsilon,
                              ConvEmbed::Names{.convolution = "conv", .norm = "norm"})),
        grid_(ConvEmbed::Embedded(before, Embedding(channels_, stage))) {
    for (int64_t i = 0; i < config.depths[stage]; ++i) {
      blocks_.push_back(Add<PaleBlock>(
          std::to_string(i),
          TransformerBlockOptions{
              .channels = channels_, .mlp_hidden = 4 * channels_, .norm_epsilon = kEpsilon},
          attention.Module({.channels = channels_,
                            .heads = config.heads[stage],
                            .grid = grid_,
                            .block = i,
                            .window = kPale})));
    }
  }

  const Grid& grid() const { return grid_; }

  // map [N, in, height, width] -> tokens.
  at::Tensor Embed(const at::Tensor& map) const { return embed_->forward(map); }

  // Undefined when the context stopped the pass.
  at::Tensor forward(at::Tensor tokens, ForwardContext& context, const std::string& name) const {
    return RunBlocks(blocks_, std::move(tokens), grid_, context, name);
  }

 private:
  const int64_t channels_;
  const std::shared_ptr<ConvEmbed> embed_;
  const Grid grid_;
  std::vector<std::shared_ptr<PaleBlock>> blocks_;
};

class Pale final : public StagedBackbone {
 public:
  Pale(const PaleConfig& config, const ModelDescription& description)
      : StagedBackbone(Describe(config, description), description,
                       std::vector<PublishedStage>(kStages, {.text = "pale", .own = "pale"})) {
    Grid grid = {.height = info().image_height, .width = info().image_width};
    for (size_t i = 0; i < kStages; ++i) {
      stages_.push_back(
          Add<Stage>(StageName(i), config, i, grid, attentions().Stage(i, MakePaleAttention)));
      grid = stages_.back()->grid();
      AddGrid(grid);
    }
    AddHead(config.channels << (kStages - 1), kEpsilon);
  }

  WeightNames weight_names() const override {
    return {.ignored_suffixes = {"num_batches_tracked"}};
  }

 private:
  static std::string StageName(size_t stage) { return "stage" + std::to_string(stage + 1); }

  static ModelInfo Describe(const PaleConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(description, {}, config.channels << (kStages - 1));
    CheckDivides(info, kPatch);
    for (size_t i = 0; i < kStages; ++i) {
      info.features.push_back({config.channels << i, kPatch << i});
    }
    return info;
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override { return stages_[0]->Embed(pixels); }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                      ForwardContext& context) const override {
    if (stage > 0) {
      tokens = stages_[stage]->Embed(TokensToMap(tokens, before.height, before.width));
    }
    return stages_[stage]->forward(std::move(tokens), context, StageName(stage));
  }

  std::vector<std::shared_ptr<Stage>> stages_;
};

}  // namespace

void RegisterPale(BackboneRegistry& registry) {
  registry.Add(Variant<Pale>("pale_tiny_224", "Pale-T, 21.7 M parameters",
                             PaleConfig{.channels = 64, .heads = {2, 4, 8, 16}}));
  registry.Add(Variant<Pale>("pale_base_224", "Pale-B, 85.3 M parameters",
                             PaleConfig{.channels = 128, .heads = {4, 8, 16, 32}}));
}

}  // namespace fovea::models
