// LinGlo: key-only attention and convolutions in every stage.
//   Rethinking Query-Key Pairwise Interactions in Vision Transformers (Li and Liu): section 3 and
//   figure 3; the variants of sections 5.1, 5.3 and 5.4. No code was published.
//
// What the paper leaves open, and what stands here:
//   - U_1, U_2, W_K and W_V are C x C (equation 4 with D = C). So the models count 3.78, 14.09 and
//     25.87 M parameters, and 3.60, 13.73 and 25.14 M with the branches of RP-CPE merged; its table
//     2 says 3.4, 13.1 and 25.4 M, which no single reading gives.
//   - The layer norm stands behind each down-sampling convolution, as in PVT v2; one more stands
//     before the average over all tokens that the classifier sees. Epsilon 1e-6, as in ConvNeXt and
//     PVT, which it follows.
//   - RP-CPE stands between the first layer of the FFN and its GELU, as in PVT v2 and Twins' CPE.
//   - A convolutional block (C-H-H-H, C-C-H-H) is the FFN with RP-CPE, an inverted bottleneck with
//     a depth-wise convolution, gated by squeeze-and-excitation as SE-ResNet is (Hu et al. 2018: at
//     the end of the branch, ReLU, reduction 16). It counts 3.78 and 3.73 M beside 3.78 M, where
//     table 5 has 3.4 and 3.3 M beside 3.4 M.
//   - Learned positions (w/o C) are added behind each patch embedding, as in PVT, here without a
//     class token. Another input size interpolates them as this project's ViT does. LinGlo-w/o-CH
//     keeps its four rows of blocks and their FFN ratios; nothing stands between them.
//   - The maps of the pyramid are the stages' outputs as they are, as PVT's; LinGlo-w/o-CH, which
//     has one resolution, makes them from its last map. Behind heads those of linglo_demo, which
//     learns from scratch, are normalised, as Swin's are in detectors: heads then start from
//     numbers of one size.
//
// Names of parameters, a file format: `stages.S.downsample.{proj,norm}`, `stages.S.pos_embed`,
// `stages.S.blocks.B.` with `norm1`, `attn.{k,v,saliency,u1,u2}`, `norm2`, `mlp.{fc1,pe,fc2}` or,
// in a convolutional block, `norm`, `mlp.{fc1,pe,fc2}`, `se.{fc1,fc2}`; `norm`, `head`; of
// linglo_demo also `map_norms.S`.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/embedded_stages.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/blocks/attend.h"
#include "model_zoo/blocks/run_blocks.h"
#include "model_zoo/layers/conv_embed.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/linear_chain.h"
#include "model_zoo/layers/position_embedding.h"
#include "model_zoo/layers/rp_cpe.h"
#include "model_zoo/layers/simple_pyramid.h"
#include "model_zoo/layers/token_map.h"
#include "model_zoo/weights/random.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr size_t kStages = 4;  // at most

struct Downsampling {
  int64_t kernel = 1;
  int64_t stride = 1;  // 1: the stage goes on with the tokens of the one before
  int64_t padding = 0;
};

// The depth-wise convolutions within an FFN.
struct Encoding {
  int64_t branches = 4;
  bool skip = true;
};

struct LinGloConfig {
  size_t stages = kStages;  // the first of these
  std::array<int64_t, kStages> channels = {};
  std::array<int64_t, kStages> depths = {2, 3, 3, 2};
  std::array<int64_t, kStages> heads = {1, 2, 5, 8};
  std::array<int64_t, kStages> mlp_ratios = {8, 8, 4, 4};
  std::array<Downsampling, kStages> downsampling = {{{7, 4, 3}, {3, 2, 1}, {3, 2, 1}, {3, 2, 1}}};
  std::optional<Encoding> encoding = Encoding();  // absent: learned positions instead
  size_t convolutional_stages = 0;                // the first ones
  bool normed_maps = false;                       // of the pyramid, where there is no classifier
  int64_t image_side = 224;
  int64_t num_classes = 1000;

  size_t last() const { return stages - 1; }
};

LinGloConfig Shrunk(LinGloConfig config) {
  for (size_t i = 0; i < kStages; ++i) {
    config.channels[i] = 8 * config.heads[i];
    config.depths[i] = std::min<int64_t>(config.depths[i], i % 2 + 1);
  }
  return config;
}

Conv2dOptions Convolution(const LinGloConfig& config, size_t stage) {
  const Downsampling& d = config.downsampling[stage];
  return Conv2dOptions::Square(stage == 0 ? 3 : config.channels[stage - 1], config.channels[stage],
                               d.kernel, d.stride, d.padding);
}

// fc2(gelu(pe(fc1(x)))), or without `pe`.
class EncodingMlp final : public Layer {
 public:
  EncodingMlp(int64_t channels, int64_t hidden, const std::optional<Encoding>& encoding)
      : fc1_(Add<Linear>("fc1", channels, hidden)) {
    if (encoding) {
      pe_ = Add<RpCpe>(
          "pe",
          RpCpeOptions{.channels = hidden, .branches = encoding->branches, .skip = encoding->skip});
    }
    fc2_ = Add<Linear>("fc2", hidden, channels);
  }

  // Of norm(tokens).
  at::Tensor forward(const at::Tensor& tokens, const LayerNorm& norm, const Grid& grid) const {
    return fc2_->forward(Hidden(tokens, norm, grid));
  }
  // tokens + forward(tokens, norm, grid).
  at::Tensor ForwardAdd(const at::Tensor& tokens, const LayerNorm& norm, const Grid& grid) const {
    return fc2_->ForwardAdd(Hidden(tokens, norm, grid), tokens);
  }

 private:
  at::Tensor Hidden(const at::Tensor& tokens, const LayerNorm& norm, const Grid& grid) const {
    const LinearLink first = {.linear = fc1_.get(), .norm = &norm, .gelu = pe_ == nullptr};
    const at::Tensor hidden = RunLinears({&first, 1}, tokens);
    if (!pe_) return hidden;
    const at::Tensor map = pe_->ForwardGelu(TokensToMap(hidden, grid.height, grid.width));
    return map.permute({0, 2, 3, 1}).flatten(1, 2);
  }

  const std::shared_ptr<Linear> fc1_;
  std::shared_ptr<RpCpe> pe_;  // null where positions are learned
  std::shared_ptr<Linear> fc2_;
};

class Block : public Layer {
 public:
  // tokens [B, grid.tokens(), channels] -> the same shape. `name` is the block's own, for what it
  // records.
  virtual at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                             const std::string& name) const = 0;
};

// Figure 3 (b).
class EncoderBlock final : public Block {
 public:
  EncoderBlock(const LinGloConfig& config, size_t stage, std::shared_ptr<AttentionModule> attention)
      : norm1_(Add<LayerNorm>("norm1", config.channels[stage], kEpsilon)),
        attn_(register_module("attn", std::move(attention))),
        norm2_(Add<LayerNorm>("norm2", config.channels[stage], kEpsilon)),
        mlp_(Add<EncodingMlp>("mlp", config.channels[stage],
                              config.mlp_ratios[stage] * config.channels[stage], config.encoding)) {
  }

  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const override {
    at::Tensor attention =
        AttendAndRecordMap(*attn_, norm1_->forward(tokens), grid, context, name + ".attn");
    if (!context.Recording()) {
      const at::Tensor attended = tokens + attention;
      tokens.reset();
      attention.reset();
      return mlp_->ForwardAdd(attended, *norm2_, grid);
    }
    context.Record(name + ".attn", "output", attention);
    const at::Tensor attended = tokens + attention;
    const at::Tensor mlp = mlp_->forward(attended, *norm2_, grid);
    context.Record(name + ".mlp", "output", mlp);
    at::Tensor output = attended + mlp;
    context.Record(name, "output", output);
    return output;
  }

 private:
  const std::shared_ptr<LayerNorm> norm1_;
  const std::shared_ptr<AttentionModule> attn_;
  const std::shared_ptr<LayerNorm> norm2_;
  const std::shared_ptr<EncodingMlp> mlp_;
};

// Scales each channel by what all tokens together say of it.
//   Squeeze-and-Excitation Networks (Hu et al., CVPR 2018), section 3.
class SqueezeExcitation final : public Layer {
 public:
  explicit SqueezeExcitation(int64_t channels)
      : fc1_(Add<Linear>("fc1", channels, std::max<int64_t>(1, channels / 16))),
        fc2_(Add<Linear>("fc2", std::max<int64_t>(1, channels / 16), channels)) {}

  at::Tensor forward(const at::Tensor& tokens) const {
    const at::Tensor squeezed = tokens.mean(1, /*keepdim=*/true);
    return tokens * fc2_->forward(fc1_->forward(squeezed).relu()).sigmoid();
  }

 private:
  const std::shared_ptr<Linear> fc1_;
  const std::shared_ptr<Linear> fc2_;
};

// Section 5.1.
class ConvolutionalBlock final : public Block {
 public:
  ConvolutionalBlock(const LinGloConfig& config, size_t stage)
      : norm_(Add<LayerNorm>("norm", config.channels[stage], kEpsilon)),
        mlp_(Add<EncodingMlp>("mlp", config.channels[stage],
                              config.mlp_ratios[stage] * config.channels[stage], config.encoding)),
        se_(Add<SqueezeExcitation>("se", config.channels[stage])) {}

  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const override {
    const at::Tensor mlp = se_->forward(mlp_->forward(tokens, *norm_, grid));
    at::Tensor output = tokens + mlp;
    if (context.Recording()) {
      context.Record(name + ".mlp", "output", mlp);
      context.Record(name, "output", output);
    }
    return output;
  }

 private:
  const std::shared_ptr<LayerNorm> norm_;
  const std::shared_ptr<EncodingMlp> mlp_;
  const std::shared_ptr<SqueezeExcitation> se_;
};

class Stage final : public Layer {
 public:
  // `before` is the grid of its input: pixels, or the tokens of the stage before.
  Stage(const LinGloConfig& config, size_t stage, const Grid& before,
        const AttentionFactory& attention)
      : grid_(before) {
    if (config.downsampling[stage].stride > 1) {
      const Conv2dOptions convolution = Convolution(config, stage);
      grid_ = ConvEmbed::Embedded(before, convolution);
      downsample_ = Add<ConvEmbed>("downsample", convolution, kEpsilon);
      if (!config.encoding) {
        pos_embed_ = AddSizedParameter("pos_embed", {1, grid_.tokens(), config.channels[stage]});
      }
    }
    blocks_ = Add<LayerList<Block>>("blocks");
    for (int64_t block = 0; block < config.depths[stage]; ++block) {
      if (stage < config.convolutional_stages) {
        blocks_->Append(std::make_shared<ConvolutionalBlock>(config, stage));
      } else {
        blocks_->Append(
            std::make_shared<EncoderBlock>(config, stage,
                                           attention.Module({.channels = config.channels[stage],
                                                             .heads = config.heads[stage],
                                                             .grid = grid_,
                                                             .block = block})));
      }
    }
  }

  const Grid& grid() const { return grid_; }

  // map NCHW of the stage before, or pixels -> tokens.
  at::Tensor Embed(const at::Tensor& map) const {
    const at::Tensor tokens =
        downsample_ ? downsample_->forward(map) : map.permute({0, 2, 3, 1}).flatten(1, 2);
    return pos_embed_.defined() ? tokens + pos_embed_ : tokens;
  }

  // Undefined when the context stopped the pass.
  at::Tensor RunBlocks(at::Tensor tokens, ForwardContext& context, const std::string& name) const {
    return models::RunBlocks(blocks_->list(), std::move(tokens), grid_, context, name + ".blocks");
  }

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    if (parameter != "pos_embed") return stored;
    return ResizePositionEmbedding(stored, /*prefix_tokens=*/0, {grid_.height, grid_.width});
  }

 private:
  Grid grid_;
  std::shared_ptr<ConvEmbed> downsample_;  // null where the resolution stays
  at::Tensor pos_embed_;                   // undefined where the FFN encodes positions
  std::shared_ptr<LayerList<Block>> blocks_;
};

class LinGlo final : public EmbeddedStages<Stage> {
 public:
  LinGlo(const LinGloConfig& config, const ModelDescription& description)
      : EmbeddedStages(Describe(config, description), description, Published(config)),
        hierarchical_(config.downsampling[config.last()].stride > 1) {
    Grid grid = {.height = info().image_height, .width = info().image_width};
    for (size_t i = 0; i < config.stages; ++i) {
      grid = AddStage(config, i, grid, attentions().Stage(i, MakeSelfAttention));
    }
    AddHead(config.channels[config.last()], kEpsilon);
    if (!config.normed_maps || description.num_classes != ModelDescription::kNoClasses) return;
    map_norms_ = Add<LayerList<LayerNorm>>("map_norms");
    for (size_t i = 0; i < config.stages; ++i) map_norms_->Emplace(config.channels[i], kEpsilon);
  }

  std::vector<at::Tensor> Features(const at::Tensor& pixels,
                                   ForwardContext& context) const override {
    if (hierarchical_) {
      std::vector<at::Tensor> maps = StagedBackbone::Features(pixels, context);
      for (size_t i = 0; map_norms_ && i < maps.size(); ++i) {
        maps[i] = (*map_norms_)[i].forward(maps[i].permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
      }
      return maps;
    }
    const at::Tensor tokens = RunStages(pixels, context, nullptr);
    if (!tokens.defined()) return {};
    const Grid& last = grid(kStages - 1);
    return SimplePyramid(TokensToMap(norm().forward(tokens), last.height, last.width));
  }

  // As PVT v2; the branches of RP-CPE sum up to a depth-wise convolution of its deviation.
  void Initialise(uint64_t seed) override {
    for (const auto& parameter : named_parameters()) {
      if (parameter.key().ends_with("pe.bias")) {
        Fill(parameter.value(), 0);
      } else {
        InitialiseAsUsual(parameter.key(), parameter.value(), seed);
      }
    }
  }

 private:
  static std::vector<PublishedStage> Published(const LinGloConfig& config) {
    std::vector<PublishedStage> published(config.stages, {.text = "key_only"});
    std::fill_n(published.begin(), config.convolutional_stages, PublishedStage::WithoutAttention());
    return published;
  }

  static ModelInfo Describe(const LinGloConfig& config, const ModelDescription& description) {
    // DeiT's evaluation, which the paper follows.
    ModelInfo info = DescribeClassifier(description,
                                        {.side = config.image_side,
                                         .num_classes = config.num_classes,
                                         .preprocessing = {.crop_fraction = 0.875}},
                                        config.channels[config.last()]);
    int64_t stride = 1;
    for (size_t i = 0; i < config.stages; ++i) {
      stride *= config.downsampling[i].stride;
      if (config.downsampling[i].padding == 0) CheckDivides(info, stride);
      info.features.push_back({config.channels[i], stride});
    }
    if (config.downsampling[config.last()].stride == 1) {
      info.features = SimplePyramidFeatures(config.channels[config.last()], stride);
    }
    return info;
  }

  const bool hierarchical_;
  std::shared_ptr<LayerList<LayerNorm>> map_norms_;  // null: the maps are taken as they are
};

}  // namespace

void RegisterLinGlo(BackboneRegistry& registry) {
  auto add = [&registry](std::string name, std::string summary, const LinGloConfig& config) {
    registry.Add(Variant<LinGlo>(std::move(name), std::move(summary), config));
  };
  const LinGloConfig b0{.channels = {32, 64, 160, 256}};
  add("linglo_b0", "LinGlo-b0, 3.8 M parameters (3.6 M prepared)", b0);
  add("linglo_b1", "LinGlo-b1, 14.1 M parameters (13.7 M prepared)",
      {.channels = {64, 128, 320, 512}});
  add("linglo_b2", "LinGlo-b2, 25.9 M parameters (25.1 M prepared)",
      {.channels = {64, 128, 320, 512}, .depths = {3, 5, 9, 3}});

  auto encoded = [&b0](int64_t branches, bool skip) {
    LinGloConfig config = b0;
    config.encoding = {.branches = branches, .skip = skip};
    return config;
  };
  add("linglo_b0_cpe", "LinGlo-b0 with one depth-wise convolution in each FFN", encoded(1, false));
  add("linglo_b0_r_cpe", "LinGlo-b0 with a skip connection beside one", encoded(1, true));
  add("linglo_b0_p_cpe", "LinGlo-b0 with four in parallel", encoded(4, false));

  auto grafted = [&b0](size_t stages) {
    LinGloConfig config = b0;
    config.convolutional_stages = stages;
    return config;
  };
  add("linglo_b0_chhh", "LinGlo-b0 with convolutional blocks in the first stage", grafted(1));
  add("linglo_b0_cchh", "LinGlo-b0 with convolutional blocks in the first two stages", grafted(2));

  LinGloConfig without_convolutions = b0;
  without_convolutions.downsampling = {{{4, 4, 0}, {2, 2, 0}, {2, 2, 0}, {2, 2, 0}}};
  without_convolutions.encoding.reset();
  add("linglo_b0_wo_c", "LinGlo-b0 with patch embeddings and learned positions",
      without_convolutions);
  LinGloConfig without_hierarchy = without_convolutions;
  without_hierarchy.channels = {150, 150, 150, 150};
  without_hierarchy.heads = {3, 3, 3, 3};
  without_hierarchy.downsampling = {{{16, 16, 0}, {}, {}, {}}};
  add("linglo_wo_ch", "LinGlo without convolutions and hierarchy: 16x16 patches, 150 channels",
      without_hierarchy);

  // Ours. Objects of 16 pixels have a map of their own at a stride of 4, where convolutions are
  // cheaper than attention; four heads wherever there are some, as aewin needs them.
  add("linglo_demo",
      "a small C-H-H of strides 4, 8 and 16 for the bundled detectors and segmenters",
      {.stages = 3,
       .channels = {32, 64, 128},
       .depths = {1, 2, 2},
       .heads = {4, 4, 4},
       .mlp_ratios = {4, 4, 3},
       .encoding = Encoding{.branches = 1},
       .convolutional_stages = 1,
       .normed_maps = true,
       .image_side = 128,
       .num_classes = 10});
}

}  // namespace fovea::models
