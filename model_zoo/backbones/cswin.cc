// CSWin Transformer: half of the heads in horizontal stripes, half in vertical ones, which widen
// from stage to stage.
//   Dong et al., CVPR 2022. Code followed: the authors' (models/cswin.py), under whose names
//   weights load: a stem and merges of overlapping convolutions; a locally enhanced positional
//   encoding (LePE), a depth-wise convolution of the values within each stripe that is added to
//   what the stripe gathered; one group of heads over the whole map in the last stage; LayerNorm
//   epsilon 1e-5. In the code the first half of the heads has the vertical stripes, in the paper
//   the horizontal ones: as in the code here.
//   Different here: the code attends the whole map with one group of heads wherever a stripe is as
//   wide as the map, here in the last stage only (at other image sizes two groups, of the same
//   outputs); maps that a stripe does not divide are padded with zero tokens, which the code cannot
//   do.
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/padded_map.h"
#include "model_zoo/attention/windowed_heads.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/conv_embed.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr int64_t kPatch = 4;
constexpr size_t kStages = 4;

struct CswinConfig {
  int64_t channels = 0;  // of the first stage, doubled by each next one
  std::array<int64_t, kStages> depths;
  std::array<int64_t, kStages> heads;
  std::array<int64_t, kStages> stripes = {1, 2, 7, 7};
};

CswinConfig Shrunk(CswinConfig config) {
  config.channels = 8 * config.heads.front();
  config.depths = {1, 2, 2, 1};
  return config;
}

// The positional encoding of a group of heads, under `get_v`.
class Lepe final : public Layer {
 public:
  explicit Lepe(int64_t channels)
      : conv_(Add<Conv2d>("get_v",
                          Conv2dOptions::Square(channels, channels, 3, 1, 1).Groups(channels))) {}

  // value [B, heads, height, width, D] -> [B, height, width, heads * D]; windows end in zeros.
  at::Tensor forward(const at::Tensor& value, const std::array<int64_t, 2>& window) const {
    const int64_t height = value.size(2), width = value.size(3);
    // [B, down, across, h, w, C]
    const at::Tensor windows = value.permute({0, 2, 3, 1, 4})
                                   .flatten(3)
                                   .unflatten(2, {-1, window[1]})
                                   .unflatten(1, {-1, window[0]})
                                   .transpose(2, 3);
    const at::Tensor encoded =
        conv_->forward(windows.flatten(0, 2).permute({0, 3, 1, 2})).permute({0, 2, 3, 1});
    return encoded.unflatten(0, {-1, height / window[0], width / window[1]})
        .transpose(2, 3)
        .flatten(3, 4)
        .flatten(1, 2);
  }

 private:
  const std::shared_ptr<Conv2d> conv_;
};

// Under their numbers, as a list: "attns.0", "attns.1".
class Lepes final : public Layer {
 public:
  Lepes(size_t groups, int64_t channels) {
    for (size_t i = 0; i < groups; ++i) list_.push_back(Add<Lepe>(std::to_string(i), channels));
  }
  const Lepe& operator[](size_t group) const { return *list_[group]; }

 private:
  std::vector<std::shared_ptr<Lepe>> list_;
};

class CswinAttention final : public AttentionModule {
 public:
  CswinAttention(const ModuleSite& site, const PaddedMap& padded, WindowedHeads heads)
      : heads_(site.heads),
        padded_(padded),
        windowed_(std::move(heads)),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)),
        attns_(Add<Lepes>("attns", windowed_.groups(),
                          site.channels / static_cast<int64_t>(windowed_.groups()))) {}

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor qkv = Project(tokens);
    tokens.reset();
    std::vector<at::Tensor> groups;
    for (size_t i = 0; i < windowed_.groups(); ++i) {
      groups.push_back(
          windowed_.AttendGroup(i, qkv[0], qkv[1], qkv[2]) +
          (*attns_)[i].forward(windowed_.Of(qkv[2], i), windowed_.windows(i).window()));
    }
    qkv.reset();
    const at::Tensor mixed = at::cat(groups, 3);
    groups.clear();
    return proj_->forward(padded_.Crop(mixed));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    return padded_.CropWeights(windowed_.Map(qkv[0], qkv[1]));
  }

 private:
  // [3, B, heads, height, width, D] of the padded map.
  at::Tensor Project(const at::Tensor& tokens) const {
    return SplitQkv(qkv_->forward(padded_.Pad(tokens)), heads_);
  }

  const int64_t heads_;
  const PaddedMap padded_;
  WindowedHeads windowed_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
  const std::shared_ptr<Lepes> attns_;
};

// `stripe` 0: one group of heads over the whole map, whatever width a text names.
AttentionFactory::ModuleBuilder OwnModule(int64_t stripe) {
  return [stripe](const AttentionSpec& spec, const ModuleSite& site,
                  const AttentionFactory& cores) -> std::shared_ptr<AttentionModule> {
    RefusePrefixTokens(site);
    const int64_t head_dim = site.channels / site.heads;
    if (stripe == 0) {
      const PaddedMap whole(site.grid, {1, 1});
      return std::make_shared<CswinAttention>(
          site, whole, WindowedHeads({Windows(whole.size(), whole.size())}, head_dim, cores));
    }
    RefuseUnevenHeads(site, 2);
    const std::array<int64_t, 2> width = WithinMap(spec.window.value_or(stripe), site.grid);
    const PaddedMap padded(site.grid, width);
    std::vector<Windows> stripes = Stripes(padded.size(), width);
    std::swap(stripes[0], stripes[1]);  // the vertical ones come first
    return std::make_shared<CswinAttention>(site, padded,
                                            WindowedHeads(std::move(stripes), head_dim, cores));
  };
}

class Cswin final : public StagedBackbone {
 public:
  Cswin(const CswinConfig& config, const ModelDescription& description)
      : StagedBackbone(
            Describe(config, description), description,
            std::vector<PublishedStage>(kStages, {.text = "cross_shaped", .own = "cross_shaped"})),
        config_(config) {
    Grid grid = {.height = info().image_height, .width = info().image_width};
    for (size_t i = 0; i < kStages; ++i) {
      const int64_t channels = config.channels << i;
      // The stem, "merge1", "merge2", "merge3".
      const Conv2dOptions embedding = i == 0
                                          ? Conv2dOptions::Square(3, channels, 7, kPatch, 2)
                                          : Conv2dOptions::Square(channels / 2, channels, 3, 2, 1);
      embeds_[i] =
          Add<ConvEmbed>(i == 0 ? "stage1_conv_embed" : "merge" + std::to_string(i), embedding,
                         kEpsilon, ConvEmbed::Names{.convolution = "conv", .norm = "norm"});
      grid = ConvEmbed::Embedded(grid, embedding);
      AddGrid(grid);
      const bool last = i + 1 == kStages;
      const AttentionFactory attention =
          attentions().Stage(i, OwnModule(last ? 0 : config.stripes[i]));
      stages_[i] = Add<TransformerBlocks>(
          StageName(i), config.depths[i],
          TransformerBlockOptions{
              .channels = channels, .mlp_hidden = 4 * channels, .norm_epsilon = kEpsilon},
          [&](int64_t block) {
            // Stripes are its own module's; other windows are of the usual size.
            return attention.Module(
                {.channels = channels, .heads = config.heads[i], .grid = grid, .block = block});
          });
    }
    AddHead(config.channels << (kStages - 1), kEpsilon);
  }

  // Published blocks hold the projections of their attention themselves.
  WeightNames weight_names() const override {
    WeightNames names{.renamed = {{"stage1_conv_embed.0.", "stage1_conv_embed.conv."},
                                  {"stage1_conv_embed.2.", "stage1_conv_embed.norm."}}};
    for (size_t i = 0; i < kStages; ++i) {
      for (int64_t block = 0; block < config_.depths[i]; ++block) {
        const std::string prefix = StageName(i) + "." + std::to_string(block) + ".";
        for (const char* part : {"qkv.", "proj.", "attns."}) {
          names.renamed.push_back({prefix + part, prefix + "attn." + part});
        }
      }
    }
    return names;
  }

 private:
  static std::string StageName(size_t stage) { return "stage" + std::to_string(stage + 1); }

  static ModelInfo Describe(const CswinConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(description, {}, config.channels << (kStages - 1));
    CheckDivides(info, kPatch);
    for (size_t i = 0; i < kStages; ++i) {
      info.features.push_back({config.channels << i, kPatch << i});
    }
    return info;
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override {
    return embeds_[0]->forward(pixels);
  }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                      ForwardContext& context) const override {
    if (stage > 0) {
      tokens = embeds_[stage]->forward(TokensToMap(tokens, before.height, before.width));
    }
    return stages_[stage]->forward(std::move(tokens), grid(stage), context, StageName(stage));
  }

  const CswinConfig config_;
  std::array<std::shared_ptr<ConvEmbed>, kStages> embeds_;
  std::array<std::shared_ptr<TransformerBlocks>, kStages> stages_;
};

}  // namespace

void RegisterCswin(BackboneRegistry& registry) {
  registry.Add(
      Variant<Cswin>("cswin_tiny_224", "CSWin-T, 22.3 M parameters",
                     CswinConfig{.channels = 64, .depths = {1, 2, 21, 1}, .heads = {2, 4, 8, 16}}));
  registry.Add(Variant<Cswin>(
      "cswin_base_224", "CSWin-B, 77.4 M parameters",
      CswinConfig{.channels = 96, .depths = {2, 4, 32, 2}, .heads = {4, 8, 16, 32}}));
}

}  // namespace fovea::models
