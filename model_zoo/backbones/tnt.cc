// Transformer in Transformer: every patch is a token of the outer transformer, and the sixteen
// pixel tokens inside it are an inner transformer's, which the patch is told of in every block.
//   Han et al., NeurIPS 2021. Code followed: timm 1.0 (tnt.py), whose names these are, in its
//   present form and not the one it calls legacy (which cuts the pixel map behind the first
//   convolution and normalises each pixel before the projection): patches are cut first, so that
//   the 7x7 convolution sees zeros beyond its patch; LayerNorm epsilon 1e-5; no bias in queries,
//   keys and values.
//   KVT's table prints 24 M parameters for TNT-S; this, and timm's, counts 23.77 M. Its k-NN
//   attention chooses among the tokens of the image, so it stands in the outer transformer; the
//   inner attention, among sixteen pixels of one patch, stays dense.
//   Different here: the final norm is applied to the class token only in a classifier, since
//   nothing reads the others.
#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/backbones/plain_backbone.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/blocks/attend.h"
#include "model_zoo/blocks/run_blocks.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/mlp.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr int64_t kPatch = 16;                             // pixels of the image to a patch
constexpr int64_t kStride = 4;                             // and to a pixel token
constexpr int64_t kInnerSide = kPatch / kStride;           // pixel tokens to a side of a patch
constexpr int64_t kInnerTokens = kInnerSide * kInnerSide;  // and in it
constexpr int64_t kMlpRatio = 4;

struct TntConfig {
  int64_t channels = 0;
  int64_t heads = 0;
  int64_t inner_channels = 0;
  int64_t inner_heads = 4;
  int64_t depth = 12;
};

TntConfig Shrunk(TntConfig config) {
  config.channels = 8 * config.heads;
  config.inner_channels = 2 * config.inner_heads;
  config.depth = 2;
  return config;
}

// Queries and keys from one projection, values from another.
class TntAttention final : public AttentionModule {
 public:
  TntAttention(int64_t channels, int64_t heads, bool proj_bias,
               std::shared_ptr<const AttentionCore> core)
      : heads_(heads),
        core_(std::move(core)),
        qk_(Add<Linear>("qk", channels, 2 * channels, /*bias=*/false)),
        v_(Add<Linear>("v", channels, channels, /*bias=*/false)),
        proj_(Add<Linear>("proj", channels, channels, proj_bias)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor qk = QueriesAndKeys(tokens);
    at::Tensor value = v_->forward(tokens).unflatten(2, {heads_, -1}).transpose(1, 2);
    tokens.reset();
    const at::Tensor mixed = core_->Attend(qk[0], qk[1], value);
    qk.reset();
    value.reset();
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qk = QueriesAndKeys(tokens);
    return core_->Map(qk[0], qk[1]);
  }

  at::Tensor Apply(const at::Tensor& map, const at::Tensor& tokens,
                   const Grid& /*grid*/) const override {
    const at::Tensor value = v_->forward(tokens).unflatten(2, {heads_, -1}).transpose(1, 2);
    return proj_->forward(at::matmul(map, value).transpose(1, 2).flatten(2));
  }

 private:
  // [2, B, heads, tokens, head_dim]
  at::Tensor QueriesAndKeys(const at::Tensor& tokens) const {
    return qk_->forward(tokens).unflatten(2, {2, heads_, -1}).permute({2, 0, 3, 1, 4});
  }

  const int64_t heads_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> qk_;
  const std::shared_ptr<Linear> v_;
  const std::shared_ptr<Linear> proj_;
};

std::shared_ptr<AttentionModule> MakeOuterAttention(const AttentionSpec& /*spec*/,
                                                    const ModuleSite& site,
                                                    const AttentionFactory& cores) {
  return std::make_shared<TntAttention>(
      site.channels, site.heads, site.proj_bias,
      cores.Core({.head_dim = site.channels / site.heads, .keys = site.grid.tokens()}));
}

std::shared_ptr<AttentionModule> MakeInnerAttention(const TntConfig& config) {
  const CoreSite site{.head_dim = config.inner_channels / config.inner_heads, .keys = kInnerTokens};
  return std::make_shared<TntAttention>(config.inner_channels, config.inner_heads,
                                        /*proj_bias=*/true,
                                        MakeDenseCore(AttentionSpec{.core = "dense"}, site));
}

// Both transformers' tokens. `pixels` [N * patches, 16, inner channels], patch by patch; `patches`
// [N, 1 + patches, channels], the class token first.
struct TntTokens {
  at::Tensor pixels;
  at::Tensor patches;
};

class TntBlock final : public Layer {
 public:
  TntBlock(const TntConfig& config, std::shared_ptr<AttentionModule> attention)
      : norm_in_(Add<LayerNorm>("norm_in", config.inner_channels, kEpsilon)),
        attn_in_(register_module("attn_in", MakeInnerAttention(config))),
        norm_mlp_in_(Add<LayerNorm>("norm_mlp_in", config.inner_channels, kEpsilon)),
        mlp_in_(Add<Mlp>("mlp_in", config.inner_channels, 4 * config.inner_channels)),
        norm1_proj_(Add<LayerNorm>("norm1_proj", kInnerTokens * config.inner_channels, kEpsilon)),
        proj_(Add<Linear>("proj", kInnerTokens * config.inner_channels, config.channels,
                          /*bias=*/false)),
        norm2_proj_(Add<LayerNorm>("norm2_proj", config.channels, kEpsilon)),
        norm_out_(Add<LayerNorm>("norm_out", config.channels, kEpsilon)),
        attn_out_(register_module("attn_out", std::move(attention))),
        norm_mlp_(Add<LayerNorm>("norm_mlp", config.channels, kEpsilon)),
        mlp_(Add<Mlp>("mlp", config.channels, kMlpRatio * config.channels)) {}

  // What it records is the outer transformer's: the tokens of the image.
  TntTokens forward(TntTokens tokens, const Grid& grid, ForwardContext& context,
                    const std::string& name) const {
    at::Tensor pixels = Inner(std::move(tokens.pixels));
    at::Tensor told = Tell(tokens.patches, pixels);
    tokens.patches.reset();
    at::Tensor attention =
        AttendAndRecordMap(*attn_out_, norm_out_->forward(told), grid, context, name + ".attn");
    const at::Tensor attended = told + attention;
    if (!context.Recording()) {
      told.reset();
      attention.reset();
      return {std::move(pixels), mlp_->ForwardAdd(norm_mlp_->forward(attended), attended)};
    }
    context.Record(name + ".attn", "output", attention);
    const at::Tensor mlp = mlp_->forward(norm_mlp_->forward(attended));
    context.Record(name + ".mlp", "output", mlp);
    const at::Tensor output = attended + mlp;
    context.Record(name, "output", output);
    return {std::move(pixels), output};
  }

 private:
  // TNT, equations 3 and 4.
  at::Tensor Inner(at::Tensor pixels) const {
    const Grid grid{.height = kInnerSide, .width = kInnerSide};
    const at::Tensor attended = pixels + attn_in_->forward(norm_in_->forward(pixels), grid);
    pixels.reset();
    return mlp_in_->ForwardAdd(norm_mlp_in_->forward(attended), attended);
  }

  // The patches with what their pixels say added, equation 5.
  at::Tensor Tell(const at::Tensor& patches, const at::Tensor& pixels) const {
    const at::Tensor flat = pixels.view({patches.size(0), patches.size(1) - 1, -1});
    const at::Tensor news = norm2_proj_->forward(proj_->forward(norm1_proj_->forward(flat)));
    return at::cat({patches.narrow(1, 0, 1), patches.slice(1, 1) + news}, 1);
  }

  const std::shared_ptr<LayerNorm> norm_in_;
  const std::shared_ptr<AttentionModule> attn_in_;
  const std::shared_ptr<LayerNorm> norm_mlp_in_;
  const std::shared_ptr<Mlp> mlp_in_;
  const std::shared_ptr<LayerNorm> norm1_proj_;
  const std::shared_ptr<Linear> proj_;
  const std::shared_ptr<LayerNorm> norm2_proj_;
  const std::shared_ptr<LayerNorm> norm_out_;
  const std::shared_ptr<AttentionModule> attn_out_;
  const std::shared_ptr<LayerNorm> norm_mlp_;
  const std::shared_ptr<Mlp> mlp_;
};

// pixels [N, 3, H, W] -> pixel tokens [N * patches, 16, inner channels], without their positions.
class PixelEmbed final : public Layer {
 public:
  explicit PixelEmbed(int64_t inner_channels)
      : proj_(Add<Conv2d>("proj", Conv2dOptions::Square(3, inner_channels, 7, kStride, 3))) {}

  at::Tensor forward(const at::Tensor& pixels) const {
    const at::Tensor patches = pixels.to(activations())
                                   .unflatten(3, {-1, kPatch})
                                   .unflatten(2, {-1, kPatch})
                                   .permute({0, 2, 4, 1, 3, 5})
                                   .flatten(0, 2);
    return proj_->forward(patches);
  }

 private:
  const std::shared_ptr<Conv2d> proj_;
};

class Tnt final : public PlainBackbone {
 public:
  Tnt(const TntConfig& config, const ModelDescription& description)
      : PlainBackbone({.stride = kPatch,
                       .channels = config.channels,
                       .norm_epsilon = kEpsilon,
                       .published = {.preprocessing = {.mean = {0.5f, 0.5f, 0.5f},
                                                       .std = {0.5f, 0.5f, 0.5f}}}},
                      description),
        pixel_embed_(Add<PixelEmbed>("pixel_embed", config.inner_channels)),
        norm1_proj_(Add<LayerNorm>("norm1_proj", kInnerTokens * config.inner_channels, kEpsilon)),
        proj_(Add<Linear>("proj", kInnerTokens * config.inner_channels, config.channels)),
        norm2_proj_(Add<LayerNorm>("norm2_proj", config.channels, kEpsilon)) {
    AddPrefixToken("cls_token");
    AddPositions("patch_pos");
    pixel_pos_ = AddParameter("pixel_pos", {1, config.inner_channels, kInnerSide, kInnerSide});
    blocks_ = Add<LayerList<TntBlock>>("blocks");
    const AttentionFactory attention = Attention(MakeOuterAttention);
    for (int64_t i = 0; i < config.depth; ++i) {
      blocks_->Emplace(config, attention.Module({.channels = config.channels,
                                                 .heads = config.heads,
                                                 .grid = grid(),
                                                 .block = i,
                                                 .qkv_bias = false}));
    }
    AddNorm();
    AddHead();
  }

 private:
  at::Tensor Tokens(const at::Tensor& pixels, ForwardContext& context) const override {
    context.EnterStage("stem");
    TntTokens tokens = EmbedBoth(pixels);
    context.EnterStage("stage1");
    return RunBlocks(blocks_->list(), std::move(tokens), grid(), context, "blocks").patches;
  }

  TntTokens EmbedBoth(const at::Tensor& pixels) const {
    // [N * patches, inner channels, 4, 4] -> pixel by pixel
    const at::Tensor inner =
        (pixel_embed_->forward(pixels) + pixel_pos_).flatten(2).transpose(1, 2).contiguous();
    const at::Tensor flat = inner.view({pixels.size(0), grid().height * grid().width, -1});
    return {inner, Placed(norm2_proj_->forward(proj_->forward(norm1_proj_->forward(flat))))};
  }

  const std::shared_ptr<PixelEmbed> pixel_embed_;
  const std::shared_ptr<LayerNorm> norm1_proj_;
  const std::shared_ptr<Linear> proj_;
  const std::shared_ptr<LayerNorm> norm2_proj_;
  at::Tensor pixel_pos_;
  std::shared_ptr<LayerList<TntBlock>> blocks_;
};

}  // namespace

void RegisterTnt(BackboneRegistry& registry) {
  registry.Add(Variant<Tnt>("tnt_s_patch16_224", "TNT-S, 23.8 M parameters",
                            TntConfig{.channels = 384, .heads = 6, .inner_channels = 24}));
}

}  // namespace fovea::models
