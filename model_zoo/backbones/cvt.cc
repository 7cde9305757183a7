// CvT: convolutions embed the tokens of each of three stages and project queries, keys and values.
//   Introducing Convolutions to Vision Transformers (Wu et al., ICCV 2021). Code followed:
//   transformers (modeling_cvt.py), whose names these are and which reads the authors' weights. As
//   there: logits are scaled by 1/sqrt(channels), not by the head's width; LayerNorm epsilon 1e-5;
//   keys and values are sub-sampled by a stride of 2; a class token joins in the last stage, passes
//   by the convolutions, and is all that the classifier sees. No positions are learned, so that any
//   input size runs.
//   cvt_13_32: Static Key Attention in Vision, table 9 (images of 32 pixels). Its widths 128 and
//   256 do not divide by 3 and 6 heads; those of CvT-13, 192 and 384, give its 19.6 M parameters.
//   Preprocessing of microsoft/cvt-13: shortest edge to 256, 224 cropped, bicubic.
#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/backbones/embedded_stages.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/conv_embed.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/normed_conv2d.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr size_t kStages = 3;
constexpr int64_t kKeyStride = 2;

struct CvtConfig {
  int64_t image_side = 224;
  std::array<int64_t, kStages> channels = {64, 192, 384};
  std::array<int64_t, kStages> depths = {1, 2, 10};
  std::array<int64_t, kStages> heads = {1, 3, 6};
  int64_t num_classes = 1000;
};

CvtConfig Shrunk(CvtConfig config) {
  for (size_t i = 0; i < kStages; ++i) {
    config.channels[i] = 8 * config.heads[i];
    config.depths[i] = std::min<int64_t>(config.depths[i], 2);
  }
  return config;
}

Conv2dOptions Embedding(const CvtConfig& config, size_t stage) {
  if (stage == 0) return Conv2dOptions::Square(3, config.channels[0], 7, 4, 2);
  return Conv2dOptions::Square(config.channels[stage - 1], config.channels[stage], 3, 2, 1);
}

// 3x3, depth-wise.
Conv2dOptions DepthWise(int64_t channels, int64_t stride) {
  return Conv2dOptions::Square(channels, channels, 3, stride, 1).Groups(channels).NoBias();
}

// What the keys come from.
Grid KeyGrid(const Grid& grid) {
  Grid keys = ConvEmbed::Embedded(grid, DepthWise(1, kKeyStride));
  keys.prefix_tokens = grid.prefix_tokens;
  return keys;
}

class ConvolutionProjection final : public Layer {
 public:
  ConvolutionProjection(int64_t channels, int64_t stride)
      : projection_(Add<NormedConv2d>("convolution_projection", "convolution", "normalization",
                                      DepthWise(channels, stride))) {}

  // tokens [B, grid.tokens(), C] -> the convolution's, row by row; prefix tokens as they are.
  at::Tensor forward(const at::Tensor& tokens, const Grid& grid) const {
    const at::Tensor convolved = projection_->forward(TokensToMap(tokens, grid.height, grid.width))
                                     .permute({0, 2, 3, 1})
                                     .flatten(1, 2);
    if (grid.prefix_tokens == 0) return convolved;
    return at::cat({tokens.narrow(1, 0, grid.prefix_tokens), convolved}, 1);
  }

 private:
  const std::shared_ptr<NormedConv2d> projection_;
};

// Section 3.3. Each of the three projections is a convolution of the map and then a linear layer.
class HeadsOfConvolutions final : public Layer {
 public:
  HeadsOfConvolutions(int64_t channels, int64_t heads)
      : heads_(heads),
        convolve_query_(Add<ConvolutionProjection>("convolution_projection_query", channels, 1)),
        convolve_key_(
            Add<ConvolutionProjection>("convolution_projection_key", channels, kKeyStride)),
        convolve_value_(
            Add<ConvolutionProjection>("convolution_projection_value", channels, kKeyStride)),
        query_(Add<Linear>("projection_query", channels, channels)),
        key_(Add<Linear>("projection_key", channels, channels)),
        value_(Add<Linear>("projection_value", channels, channels)) {}

  // [B, heads, tokens or keys, head_dim].
  at::Tensor Query(const at::Tensor& tokens, const Grid& grid) const {
    return Split(query_->forward(convolve_query_->forward(tokens, grid)));
  }
  at::Tensor Key(const at::Tensor& tokens, const Grid& grid) const {
    return Split(key_->forward(convolve_key_->forward(tokens, grid)));
  }
  at::Tensor Value(const at::Tensor& tokens, const Grid& grid) const {
    return Split(value_->forward(convolve_value_->forward(tokens, grid)));
  }

 private:
  at::Tensor Split(const at::Tensor& projected) const {
    return projected.unflatten(2, {heads_, -1}).transpose(1, 2);
  }

  const int64_t heads_;
  const std::shared_ptr<ConvolutionProjection> convolve_query_;
  const std::shared_ptr<ConvolutionProjection> convolve_key_;
  const std::shared_ptr<ConvolutionProjection> convolve_value_;
  const std::shared_ptr<Linear> query_;
  const std::shared_ptr<Linear> key_;
  const std::shared_ptr<Linear> value_;
};

// `output.dense`.
class Output final : public Layer {
 public:
  explicit Output(int64_t channels) : dense_(Add<Linear>("dense", channels, channels)) {}
  at::Tensor forward(const at::Tensor& tokens) const { return dense_->forward(tokens); }

 private:
  const std::shared_ptr<Linear> dense_;
};

class CvtAttention final : public AttentionModule {
 public:
  CvtAttention(const ModuleSite& site, std::shared_ptr<const AttentionCore> core)
      : core_(std::move(core)),
        attention_(Add<HeadsOfConvolutions>("attention", site.channels, site.heads)),
        output_(Add<Output>("output", site.channels)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& grid) const override {
    at::Tensor query = attention_->Query(tokens, grid);
    at::Tensor key = attention_->Key(tokens, grid), value = attention_->Value(tokens, grid);
    tokens.reset();
    const at::Tensor mixed = core_->Attend(query, key, value);
    for (at::Tensor* projected : {&query, &key, &value}) projected->reset();
    return output_->forward(mixed.transpose(1, 2).flatten(2));
  }

  // Every token attends to sub-sampled ones: a key's weight is given to the token under the middle
  // of its kernel, and the others have none.
  at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor map =
        core_->Map(attention_->Query(tokens, grid), attention_->Key(tokens, grid));
    const at::Tensor places = at::arange(grid.tokens(), map.options().dtype(at::kLong));
    const at::Tensor middles = places.slice(0, grid.prefix_tokens)
                                   .view({grid.height, grid.width})
                                   .slice(0, 0, grid.height, kKeyStride)
                                   .slice(1, 0, grid.width, kKeyStride)
                                   .flatten();
    const at::Tensor keys = at::cat({places.slice(0, 0, grid.prefix_tokens), middles});
    return at::zeros({map.size(0), map.size(1), grid.tokens(), grid.tokens()}, map.options())
        .index_copy(3, keys, map);
  }

 private:
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<HeadsOfConvolutions> attention_;
  const std::shared_ptr<Output> output_;
};

std::shared_ptr<AttentionModule> MakeCvtAttention(const AttentionSpec& /*spec*/,
                                                  const ModuleSite& site,
                                                  const AttentionFactory& cores) {
  return std::make_shared<CvtAttention>(
      site, cores.Core({.head_dim = site.channels / site.heads,
                        .keys = KeyGrid(site.grid).tokens(),
                        .scale = 1 / std::sqrt(static_cast<double>(site.channels))}));
}

// `embedding.convolution_embeddings`.
class Embeddings final : public Layer {
 public:
  explicit Embeddings(const Conv2dOptions& convolution)
      : embed_(Add<ConvEmbed>(
            "convolution_embeddings", convolution, kEpsilon,
            ConvEmbed::Names{.convolution = "projection", .norm = "normalization"})) {}
  at::Tensor forward(const at::Tensor& map) const { return embed_->forward(map); }

 private:
  const std::shared_ptr<ConvEmbed> embed_;
};

class Stage final : public Layer {
 public:
  // `before` is the grid of its input: pixels, or the places of the stage before.
  Stage(const CvtConfig& config, size_t stage, const Grid& before,
        const AttentionFactory& attention)
      : grid_(ConvEmbed::Embedded(before, Embedding(config, stage))),
        embedding_(Add<Embeddings>("embedding", Embedding(config, stage))) {
    const int64_t channels = config.channels[stage];
    if (stage + 1 == kStages) {
      cls_token_ = AddParameter("cls_token", {1, 1, channels});
      grid_.prefix_tokens = 1;
    }
    layers_ = Add<TransformerBlocks>(
        "layers", config.depths[stage],
        TransformerBlockOptions{
            .channels = channels, .mlp_hidden = 4 * channels, .norm_epsilon = kEpsilon},
        [&](int64_t block) {
          return attention.Module(
              {.channels = channels, .heads = config.heads[stage], .grid = grid_, .block = block});
        });
  }

  const Grid& grid() const { return grid_; }

  // map NCHW of the stage before, or pixels -> tokens, the class token first.
  at::Tensor Embed(const at::Tensor& map) const {
    const at::Tensor places = embedding_->forward(map);
    if (!cls_token_.defined()) return places;
    return at::cat({cls_token_.expand({places.size(0), -1, -1}), places}, 1);
  }

  // Undefined when the context stopped the pass.
  at::Tensor RunBlocks(at::Tensor tokens, ForwardContext& context, const std::string& name) const {
    return layers_->forward(std::move(tokens), grid_, context, name + ".layers");
  }

 private:
  Grid grid_;
  const std::shared_ptr<Embeddings> embedding_;
  at::Tensor cls_token_;  // undefined but in the last stage
  std::shared_ptr<TransformerBlocks> layers_;
};

class Cvt final : public EmbeddedStages<Stage> {
 public:
  // Its attention has no name of its own: `self` is the one that projects without convolutions.
  Cvt(const CvtConfig& config, const ModelDescription& description)
      : EmbeddedStages(Describe(config, description), description,
                       std::vector<PublishedStage>(kStages, {.text = "dense", .own = ""})) {
    Grid grid = {.height = info().image_height, .width = info().image_width};
    for (size_t i = 0; i < kStages; ++i) {
      grid = AddStage(config, i, grid, attentions().Stage(i, MakeCvtAttention));
    }
    AddHead(config.channels.back(), kEpsilon, {.norm = "layernorm", .linear = "classifier"});
  }

  // The zoo's block in the place of transformers' CvtLayer.
  WeightNames weight_names() const override {
    return {.renamed = {{"cvt.encoder.stages.", "stages."}},
            .ignored_suffixes = {"num_batches_tracked"},
            .renamed_parts = {{".attention.", ".attn."},
                              {".layernorm_before.", ".norm1."},
                              {".layernorm_after.", ".norm2."},
                              {".intermediate.dense.", ".mlp.fc1."},
                              {".output.dense.", ".mlp.fc2."}}};
  }

 private:
  static ModelInfo Describe(const CvtConfig& config, const ModelDescription& description) {
    ModelInfo info = DescribeClassifier(description,
                                        {.side = config.image_side,
                                         .num_classes = config.num_classes,
                                         .preprocessing = {.crop_fraction = 0.875}},
                                        config.channels.back());
    for (size_t i = 0; i < kStages; ++i) {
      info.features.push_back({config.channels[i], int64_t{4} << i});
    }
    return info;
  }
};

}  // namespace

void RegisterCvt(BackboneRegistry& registry) {
  auto add = [&registry](std::string name, std::string summary, const CvtConfig& config) {
    registry.Add(Variant<Cvt>(std::move(name), std::move(summary), config));
  };
  add("cvt_13", "CvT-13, 20.0 M parameters", {});
  add("cvt_13_32", "CvT-13 for 32-pixel images, 19.6 M parameters",
      {.image_side = 32, .num_classes = 10});
}

}  // namespace fovea::models
