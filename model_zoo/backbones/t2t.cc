// T2T-ViT: neighbouring tokens are soft-split into fewer and longer ones, three times, before a
// deep and narrow vision transformer.
//   Yuan et al., ICCV 2021. Code followed: the official repository (yitu-opensource/T2T-ViT,
//   models/t2t_vit.py, token_transformer.py, transformer_block.py), whose names these are, in the
//   form "t" with transformers between the splits: LayerNorm epsilon 1e-5; no bias in queries, keys
//   and values; the token transformers attend with one head of width 64, scale their logits by the
//   width of their input (147, 576) to the power -1/2, and add the values, not the input, to what
//   they attended; the position embedding is a table of sines that is stored with the weights and
//   never trained. KVT's table prints 39 M parameters; this, and the official model, counts 39.2 M
//   with that table.
//   The papers do not say whether k-NN attention also replaces the two token transformers'. It does
//   not here: they change the number of channels, so that no attention module could stand there.
//   Different here: the final norm is applied to the class token only in a classifier; images need
//   not be square, and their table is interpolated as timm's are.
#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <vector>

#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/backbones/plain_backbone.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/mlp.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr int64_t kStride = 16;  // pixels to a token

struct T2tConfig {
  int64_t token_channels = 64;  // between the splits
  int64_t channels = 0;
  int64_t depth = 0;
  int64_t heads = 0;
  int64_t mlp_ratio = 3;
};

T2tConfig Shrunk(T2tConfig config) {
  config.token_channels = 8;
  config.channels = 8 * config.heads;
  config.depth = 2;
  return config;
}

// How neighbours become one token: overlapping squares of `side`, `stride` apart.
struct SoftSplit {
  int64_t side;
  int64_t stride;
  int64_t padding;

  // Tokens of a map of `in` channels have this many.
  int64_t Channels(int64_t in) const { return in * side * side; }

  Grid Apply(const Grid& grid) const {
    return {.height = (grid.height + 2 * padding - side) / stride + 1,
            .width = (grid.width + 2 * padding - side) / stride + 1};
  }

  // map [N, in, height, width], strides free -> [N, tokens, Channels(in)], channel by channel.
  at::Tensor Apply(const at::Tensor& map) const {
    const at::Tensor squares = at::constant_pad_nd(map, {padding, padding, padding, padding})
                                   .unfold(2, side, stride)
                                   .unfold(3, side, stride);
    return squares.permute({0, 2, 3, 1, 4, 5}).flatten(3).flatten(1, 2);
  }
};

constexpr SoftSplit kSplits[] = {{7, 4, 2}, {3, 2, 1}, {3, 2, 1}};

// `attn` of a token transformer: one head that makes `out` channels of `in`.
class TokenAttention final : public Layer {
 public:
  TokenAttention(int64_t in, int64_t out)
      : core_(MakeDenseCore(AttentionSpec{.core = "dense"},
                            {.head_dim = out, .scale = 1 / std::sqrt(static_cast<double>(in))})),
        qkv_(Add<Linear>("qkv", in, 3 * out, /*bias=*/false)),
        proj_(Add<Linear>("proj", out, out)) {}

  // tokens [N, tokens, in] -> [N, tokens, out].
  at::Tensor forward(at::Tensor tokens) const {
    const std::vector<at::Tensor> qkv = qkv_->forward(tokens).unsqueeze(1).chunk(3, -1);
    tokens.reset();
    const at::Tensor mixed = core_->Attend(qkv[0], qkv[1], qkv[2]).squeeze(1);
    return proj_->ForwardAdd(mixed, qkv[2].squeeze(1));
  }

 private:
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
};

// T2T-ViT, section 3.1, equation 1: without a way around the attention.
class TokenTransformer final : public Layer {
 public:
  TokenTransformer(int64_t in, int64_t out)
      : norm1_(Add<LayerNorm>("norm1", in, kEpsilon)),
        attn_(Add<TokenAttention>("attn", in, out)),
        norm2_(Add<LayerNorm>("norm2", out, kEpsilon)),
        mlp_(Add<Mlp>("mlp", out, out)) {}

  at::Tensor forward(at::Tensor tokens) const {
    at::Tensor normalised = norm1_->forward(tokens);
    tokens.reset();
    const at::Tensor attended = attn_->forward(std::move(normalised));
    return mlp_->ForwardAdd(norm2_->forward(attended), attended);
  }

 private:
  const std::shared_ptr<LayerNorm> norm1_;
  const std::shared_ptr<TokenAttention> attn_;
  const std::shared_ptr<LayerNorm> norm2_;
  const std::shared_ptr<Mlp> mlp_;
};

// `tokens_to_token`: pixels [N, 3, H, W] -> [N, H/16 * W/16, channels].
class TokensToToken final : public Layer {
 public:
  TokensToToken(const T2tConfig& config, const Grid& image)
      : after_({kSplits[0].Apply(image), kSplits[1].Apply(kSplits[0].Apply(image))}),
        attention1_(
            Add<TokenTransformer>("attention1", kSplits[0].Channels(3), config.token_channels)),
        attention2_(Add<TokenTransformer>("attention2", kSplits[1].Channels(config.token_channels),
                                          config.token_channels)),
        project_(
            Add<Linear>("project", kSplits[2].Channels(config.token_channels), config.channels)) {}

  at::Tensor forward(const at::Tensor& pixels) const {
    at::Tensor tokens = attention1_->forward(kSplits[0].Apply(pixels.to(activations())));
    tokens = attention2_->forward(
        kSplits[1].Apply(TokensToMap(tokens, after_[0].height, after_[0].width)));
    return project_->forward(
        kSplits[2].Apply(TokensToMap(tokens, after_[1].height, after_[1].width)));
  }

 private:
  const std::array<Grid, 2> after_;  // the first two splits
  const std::shared_ptr<TokenTransformer> attention1_;
  const std::shared_ptr<TokenTransformer> attention2_;
  const std::shared_ptr<Linear> project_;
};

class T2t final : public PlainBackbone {
 public:
  T2t(const T2tConfig& config, const ModelDescription& description)
      : PlainBackbone({.stride = kStride, .channels = config.channels, .norm_epsilon = kEpsilon},
                      description) {
    AddStem<TokensToToken>("tokens_to_token", config,
                           Grid{.height = info().image_height, .width = info().image_width});
    AddPrefixToken("cls_token");
    AddSinePositions("pos_embed");
    AddBlocks(config.depth, config.mlp_ratio * config.channels,
              {.heads = config.heads, .qkv_bias = false});
    AddNorm();
    AddHead();
  }
};

}  // namespace

void RegisterT2t(BackboneRegistry& registry) {
  registry.Add(Variant<T2t>("t2t_vit_t_19", "T2T-ViT-t-19, 39.2 M parameters",
                            T2tConfig{.channels = 448, .depth = 19, .heads = 7}));
}

}  // namespace fovea::models
