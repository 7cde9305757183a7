// VOLO: outlookers on a fine map, then transformer blocks on one of half its size, then a class
// token that reads both.
//   Yuan et al. 2021. Code followed: timm 1.0 (volo.py), whose names these are: LayerNorm epsilon
//   1e-5; no bias in any query, key or value; the position embedding is added behind the
//   outlookers; at inference half of the largest auxiliary logit of any token is added to the
//   class token's (token labelling, Jiang et al. 2021).
//   The outlookers' weights come from the token in the middle of a window and not from pairs of
//   tokens (section 3.1): there are no keys among which an attention could choose, so stage 1 is
//   written "-". The two class-attention blocks have one query an image and keep theirs too.
//   KVT's table prints 27 M and 86 M parameters; these, and timm's, count 26.8 M and 86.6 M.
//   Different here: an image is refused unless its sides are multiples of 16 (timm drops the odd
//   row).
#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/registry/stage_attentions.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/batch_norm.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/mlp.h"
#include "model_zoo/layers/position_embedding.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr int64_t kPatch = 8;  // pixels to a token of stage 1
constexpr int64_t kMlpRatio = 3;
constexpr int64_t kPostBlocks = 2;

struct VoloConfig {
  int64_t image_side = 224;
  int64_t stem_channels = 64;
  std::array<int64_t, 2> channels = {};  // of the outlookers, and of all behind them
  std::array<int64_t, 2> heads = {};
  std::array<int64_t, 4> depths = {};
};

VoloConfig Shrunk(VoloConfig config) {
  config.stem_channels = 8;
  for (int i = 0; i < 2; ++i) config.channels[i] = 8 * config.heads[i];
  config.depths = {2, 2, 1, 1};
  return config;
}

// The patches of side x side that a convolution with this stride and kernel sees, for the matrix
// product that it is. map [N, channels, height, width], strides free -> [N, height/side *
// width/side, channels * side * side].
at::Tensor Patches(const at::Tensor& map, int64_t side) {
  const at::Tensor cut =
      map.unflatten(3, {-1, side}).unflatten(2, {-1, side}).permute({0, 2, 4, 1, 3, 5});
  return cut.flatten(3, 5).flatten(1, 2);
}

// `conv`: three convolutions with a batch norm and a ReLU each, under their places in timm's list.
class ConvolutionStem final : public Layer {
 public:
  explicit ConvolutionStem(int64_t channels) {
    const auto append = [&](const Conv2dOptions& options, int64_t place) {
      convolutions_.push_back(Add<Conv2d>(std::to_string(place), options.NoBias()));
      norms_.push_back(Add<BatchNorm2d>(std::to_string(place + 1), channels));
    };
    append(Conv2dOptions::Square(3, channels, 7, 2, 3), 0);
    append(Conv2dOptions::Square(channels, channels, 3, 1, 1), 3);
    append(Conv2dOptions::Square(channels, channels, 3, 1, 1), 6);
  }

  at::Tensor forward(const at::Tensor& pixels) const {
    at::Tensor map = pixels;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      map = norms_[i]->forward(convolutions_[i]->forward(map));
      map = prepared() ? map.relu_() : map.relu();
    }
    return map;
  }

  void Prepare(const Placement& placement) override {
    for (size_t i = 0; i < convolutions_.size(); ++i) norms_[i]->FoldInto(*convolutions_[i]);
    Layer::Prepare(placement);
  }

 private:
  std::vector<std::shared_ptr<Conv2d>> convolutions_;
  std::vector<std::shared_ptr<BatchNorm2d>> norms_;
};

// pixels [N, 3, H, W] -> tokens of stage 1.
class VoloPatchEmbed final : public Layer {
 public:
  VoloPatchEmbed(int64_t stem_channels, int64_t channels)
      : conv_(Add<ConvolutionStem>("conv", stem_channels)),
        proj_(Add<Linear>("proj", at::IntArrayRef{channels, stem_channels, kCut, kCut})) {
    proj_->KeepPrecision();
  }

  at::Tensor forward(const at::Tensor& pixels) const {
    const at::Tensor patches = Patches(conv_->forward(pixels.to(activations())), kCut);
    return proj_->forward(patches);
  }

 private:
  static constexpr int64_t kCut = kPatch / 2;  // the stem has halved the image
  const std::shared_ptr<ConvolutionStem> conv_;
  const std::shared_ptr<Linear> proj_;
};

// From stage 1 to stage 2: 2x2 neighbours become one token.
class Downsample final : public Layer {
 public:
  Downsample(int64_t in, int64_t out)
      : proj_(Add<Linear>("proj", at::IntArrayRef{out, in, 2, 2})) {}

  at::Tensor forward(const at::Tensor& tokens, const Grid& grid) const {
    return proj_->forward(Patches(TokensToMap(tokens, grid.height, grid.width), 2));
  }

 private:
  const std::shared_ptr<Linear> proj_;
};

// Outlook attention: every other token says how the 3x3 values around it are mixed into each of
// the nine places, and overlapping windows add up.
//   VOLO, section 3.1 and algorithm 1, with stride 2.
class OutlookAttention final : public AttentionModule {
 public:
  OutlookAttention(int64_t channels, int64_t heads)
      : heads_(heads),
        scale_(1 / std::sqrt(static_cast<double>(channels / heads))),
        v_(Add<Linear>("v", channels, channels, /*bias=*/false)),
        attn_(Add<Linear>("attn", channels, heads * kPlaces * kPlaces)),
        proj_(Add<Linear>("proj", channels, channels)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& grid) const override {
    at::Tensor weights = Weights(tokens, grid), values = Values(tokens, grid);
    tokens.reset();
    const int64_t rows = values.size(1), columns = values.size(2);
    // [N, rows, columns, heads, 9, head_dim]
    at::Tensor mixed = at::matmul(weights, values);
    weights.reset();
    values.reset();

    at::Tensor sum = at::zeros({mixed.size(0), grid.height + 2 * kPadding,
                                grid.width + 2 * kPadding, heads_, mixed.size(5)},
                               mixed.options());
    for (int64_t place = 0; place < kPlaces; ++place) {
      const int64_t top = place / kSide, left = place % kSide;
      sum.slice(1, top, top + kStride * (rows - 1) + 1, kStride)
          .slice(2, left, left + kStride * (columns - 1) + 1, kStride)
          .add_(mixed.select(4, place));
    }
    mixed.reset();
    sum = sum.narrow(1, kPadding, grid.height)
              .narrow(2, kPadding, grid.width)
              .flatten(3)
              .flatten(1, 2);
    return proj_->forward(sum);
  }

  // A token is mixed by up to four windows, each of other weights: no row is its attention.
  at::Tensor Map(const at::Tensor& /*tokens*/, const Grid& /*grid*/) const override { return {}; }

 private:
  static constexpr int64_t kSide = 3;
  static constexpr int64_t kPlaces = kSide * kSide;
  static constexpr int64_t kStride = 2;
  static constexpr int64_t kPadding = 1;

  // The 3x3 values around every other token, [N, rows, columns, heads, 9, head_dim].
  at::Tensor Values(const at::Tensor& tokens, const Grid& grid) const {
    const at::Tensor padded =
        at::constant_pad_nd(v_->forward(tokens).unflatten(1, {grid.height, grid.width}),
                            {0, 0, kPadding, kPadding, kPadding, kPadding});
    // [N, rows, columns, channels, 3, 3], overlapping
    return padded.unfold(1, kSide, kStride)
        .unfold(2, kSide, kStride)
        .unflatten(3, {heads_, -1})
        .permute({0, 1, 2, 3, 5, 6, 4})
        .flatten(4, 5);
  }

  // How each place of a window mixes its values, [N, rows, columns, heads, 9, 9].
  at::Tensor Weights(const at::Tensor& tokens, const Grid& grid) const {
    const at::Tensor middles = at::avg_pool2d(TokensToMap(tokens, grid.height, grid.width), kStride,
                                              kStride, /*padding=*/0, /*ceil_mode=*/true)
                                   .permute({0, 2, 3, 1});
    return (attn_->forward(middles) * scale_).unflatten(3, {heads_, kPlaces, kPlaces}).softmax(-1);
  }

  const int64_t heads_;
  const double scale_;
  const std::shared_ptr<Linear> v_;
  const std::shared_ptr<Linear> attn_;
  const std::shared_ptr<Linear> proj_;
};

// `attn` of a class-attention block: the class token is the only query.
//   CaiT (Touvron et al. 2021), section 2.2; here without a bias in the projections.
class ClassAttention final : public Layer {
 public:
  ClassAttention(int64_t channels, int64_t heads)
      : heads_(heads),
        core_(MakeDenseCore(AttentionSpec{.core = "dense"}, {.head_dim = channels / heads})),
        kv_(Add<Linear>("kv", channels, 2 * channels, /*bias=*/false)),
        q_(Add<Linear>("q", channels, channels, /*bias=*/false)),
        proj_(Add<Linear>("proj", channels, channels)) {}

  // tokens [N, 1 + tokens, channels], the class token first -> [N, 1, channels].
  at::Tensor forward(const at::Tensor& tokens) const {
    const at::Tensor kv =
        kv_->forward(tokens).unflatten(2, {2, heads_, -1}).permute({2, 0, 3, 1, 4});
    const at::Tensor query =
        q_->forward(tokens.narrow(1, 0, 1)).unflatten(2, {heads_, -1}).transpose(1, 2);
    return proj_->forward(core_->Attend(query, kv[0], kv[1]).transpose(1, 2).flatten(2));
  }

 private:
  const int64_t heads_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> kv_;
  const std::shared_ptr<Linear> q_;
  const std::shared_ptr<Linear> proj_;
};

// A block of the post network: only the class token changes.
class ClassBlock final : public Layer {
 public:
  ClassBlock(int64_t channels, int64_t heads)
      : norm1_(Add<LayerNorm>("norm1", channels, kEpsilon)),
        attn_(Add<ClassAttention>("attn", channels, heads)),
        norm2_(Add<LayerNorm>("norm2", channels, kEpsilon)),
        mlp_(Add<Mlp>("mlp", channels, kMlpRatio * channels)) {}

  // cls [N, 1, channels], tokens [N, tokens, channels] -> the new class token.
  at::Tensor forward(const at::Tensor& cls, const at::Tensor& tokens) const {
    const at::Tensor attended = cls + attn_->forward(norm1_->forward(at::cat({cls, tokens}, 1)));
    return mlp_->ForwardAdd(norm2_->forward(attended), attended);
  }

 private:
  const std::shared_ptr<LayerNorm> norm1_;
  const std::shared_ptr<ClassAttention> attn_;
  const std::shared_ptr<LayerNorm> norm2_;
  const std::shared_ptr<Mlp> mlp_;
};

// `network`: the stages and the step between the first two, under their places in timm's list.
class Network final : public Layer {
 public:
  Network(const VoloConfig& config, const StageAttentions& attentions, const Grid& fine,
          const Grid& coarse)
      : fine_(fine), coarse_(coarse) {
    const auto options = [](int64_t channels) {
      return TransformerBlockOptions{
          .channels = channels, .mlp_hidden = kMlpRatio * channels, .norm_epsilon = kEpsilon};
    };
    stages_.push_back(
        Add<TransformerBlocks>("0", config.depths[0], options(config.channels[0]), [&](int64_t) {
          return std::make_shared<OutlookAttention>(config.channels[0], config.heads[0]);
        }));
    downsample_ = Add<Downsample>("1", config.channels[0], config.channels[1]);
    for (size_t i = 1; i < config.depths.size(); ++i) {
      const AttentionFactory attention = attentions.Stage(i, MakeSelfAttention);
      stages_.push_back(Add<TransformerBlocks>(
          std::to_string(i + 1), config.depths[i], options(config.channels[1]), [&](int64_t block) {
            return attention.Module({.channels = config.channels[1],
                                     .heads = config.heads[1],
                                     .grid = coarse,
                                     .block = block,
                                     .qkv_bias = false});
          }));
    }
  }

  // As StagedBackbone::RunStage. pos_embed [1, height, width, channels] of the coarse grid.
  at::Tensor RunStage(size_t stage, at::Tensor tokens, const at::Tensor& pos_embed,
                      ForwardContext& context) const {
    if (stage == 1) tokens = downsample_->forward(tokens, fine_) + pos_embed.flatten(1, 2);
    const size_t place = stage == 0 ? 0 : stage + 1;
    return stages_[stage]->forward(std::move(tokens), stage == 0 ? fine_ : coarse_, context,
                                   "network." + std::to_string(place));
  }

 private:
  const Grid fine_;
  const Grid coarse_;
  std::vector<std::shared_ptr<TransformerBlocks>> stages_;
  std::shared_ptr<Downsample> downsample_;
};

// `post_network`.
class PostNetwork final : public Layer {
 public:
  PostNetwork(int64_t channels, int64_t heads) {
    for (int64_t i = 0; i < kPostBlocks; ++i) {
      blocks_.push_back(Add<ClassBlock>(std::to_string(i), channels, heads));
    }
  }

  at::Tensor forward(at::Tensor cls, const at::Tensor& tokens) const {
    for (const auto& block : blocks_) cls = block->forward(cls, tokens);
    return cls;
  }

 private:
  std::vector<std::shared_ptr<ClassBlock>> blocks_;
};

class Volo final : public StagedBackbone {
 public:
  Volo(const VoloConfig& config, const ModelDescription& description)
      : StagedBackbone(Describe(config, description), description,
                       {PublishedStage::WithoutAttention(),
                        {.text = "dense"},
                        {.text = "dense"},
                        {.text = "dense"}}),
        patch_embed_(Add<VoloPatchEmbed>("patch_embed", config.stem_channels, config.channels[0])) {
    const int64_t channels = config.channels[1];
    const Grid fine = {.height = info().image_height / kPatch,
                       .width = info().image_width / kPatch};
    const Grid coarse = {.height = fine.height / 2, .width = fine.width / 2};
    pos_embed_ = AddSizedParameter("pos_embed", {1, coarse.height, coarse.width, channels});
    network_ = Add<Network>("network", config, attentions(), fine, coarse);
    for (const Grid& grid : {fine, coarse, coarse, coarse}) AddGrid(grid);
    post_network_ = Add<PostNetwork>("post_network", channels, config.heads[1]);
    cls_token_ = AddParameter("cls_token", {1, 1, channels});
    const int64_t classes = info().num_classes;
    if (classes > 0) aux_head_ = Add<Linear>("aux_head", channels, classes);
    norm_ = Add<LayerNorm>("norm", channels, kEpsilon);
    if (classes > 0) {
      head_ = Add<Linear>("head", channels, classes);
      head_->KeepPrecision();
      aux_head_->KeepPrecision();
    }
  }

  WeightNames weight_names() const override {
    return {.ignored_suffixes = {"num_batches_tracked"}};
  }

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    if (parameter != "pos_embed") return stored;
    if (stored.dim() != 4) return stored;
    // It is stored with its channels last.
    return ResizePositionMap(stored.permute({0, 3, 1, 2}), {grid(1).height, grid(1).width})
        .permute({0, 2, 3, 1});
  }

 private:
  static ModelInfo Describe(const VoloConfig& config, const ModelDescription& description) {
    PublishedInput published{.side = config.image_side};
    published.preprocessing.crop_fraction = 1;
    ModelInfo info = DescribeClassifier(description, published, config.channels[1]);
    CheckDivides(info, 2 * kPatch);
    info.features = {{config.channels[0], kPatch}};
    info.features.resize(4, {config.channels[1], 2 * kPatch});
    return info;
  }

  at::Tensor RunStem(const at::Tensor& pixels) const override {
    return patch_embed_->forward(pixels);
  }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& /*before*/,
                      ForwardContext& context) const override {
    return network_->RunStage(stage, std::move(tokens), pos_embed_, context);
  }

  at::Tensor RunHead(const at::Tensor& tokens) const override {
    const at::Tensor cls =
        post_network_->forward(cls_token_.expand({tokens.size(0), -1, -1}), tokens);
    const at::Tensor features = norm_->forward(cls).select(1, 0);
    if (!head_) return features;
    return head_->forward(features) + 0.5 * aux_head_->forward(norm_->forward(tokens)).amax(1);
  }

  const std::shared_ptr<VoloPatchEmbed> patch_embed_;
  at::Tensor pos_embed_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<PostNetwork> post_network_;
  at::Tensor cls_token_;
  std::shared_ptr<Linear> aux_head_;  // as head_
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;  // null where the model gives features
};

}  // namespace

void RegisterVolo(BackboneRegistry& registry) {
  auto add = [&registry](std::string name, std::string summary, const VoloConfig& config) {
    registry.Add(Variant<Volo>(std::move(name), std::move(summary), config));
  };
  add("volo_d1_384", "VOLO-D1, 26.8 M parameters",
      {.image_side = 384, .channels = {192, 384}, .heads = {6, 12}, .depths = {4, 4, 8, 2}});
  add("volo_d3_448", "VOLO-D3, 86.6 M parameters",
      {.image_side = 448, .channels = {256, 512}, .heads = {8, 16}, .depths = {8, 8, 16, 4}});
}

}  // namespace fovea::models
