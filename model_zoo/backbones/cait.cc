// CaiT: blocks of talking-heads attention between patches, then two layers in which a class token
// attends them.
//   Going deeper with Image Transformers, Touvron et al. 2021; talking heads: Shazeer et al. 2020.
//   Code followed: timm 1.0 (cait.py), whose names these are: LayerNorm epsilon 1e-6, exact GELU,
//   every branch times a learned factor for each channel (`gamma_1`, `gamma_2`).
//   The attention that is exchanged is the patch blocks'; the class layers keep their own. Where
//   the patch blocks attend in another way there are no talking heads, and no prefix token among
//   their tokens. Different here: the final norm is applied to the class token only, since the
//   classifier reads no other. cait_small_32: Static Key Attention in Vision, table 9. Its MLP
//   dimension of 512 goes for the class layers too: so it counts 12.70 M, the table's 12.7 M.
#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>

#include "model_zoo/attention/attention_time.h"
#include "model_zoo/attention/cores/cores.h"
#include "model_zoo/backbones/plain_backbone.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/blocks/attend.h"
#include "model_zoo/blocks/run_blocks.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/mlp.h"
#include "model_zoo/layers/patch_embed.h"
#include "model_zoo/weights/random.h"

namespace fovea::models {
namespace {

struct CaitConfig {
  int64_t image_side = 224;
  int64_t patch = 16;
  int64_t channels = 0;
  int64_t depth = 0;
  int64_t class_depth = 2;
  int64_t heads = 8;
  int64_t mlp_ratio = 4;
  double initial_gamma = 1e-4;  // of the branches' factors
  int64_t num_classes = 1000;
};

CaitConfig Shrunk(CaitConfig config) {
  config.channels = 8 * config.heads;
  config.depth = 2;
  return config;
}

// Each head's logits (or weights) as a mixture of all heads': `weight` [heads, heads], `bias`
// [heads].
class HeadMixture final : public Layer {
 public:
  explicit HeadMixture(int64_t heads)
      : weight_(AddParameter("weight", {heads, heads})), bias_(AddParameter("bias", {heads})) {}

  // [B, heads, Nq, Nk] -> the same shape; of scale times the input.
  at::Tensor forward(const at::Tensor& logits, double scale = 1) const {
    const at::Tensor flat = logits.flatten(2);
    return at::baddbmm(bias_.unsqueeze(1), weight_.unsqueeze(0).expand({flat.size(0), -1, -1}),
                       flat, /*beta=*/1, /*alpha=*/scale)
        .view_as(logits);
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

// Self-attention whose heads exchange their logits before the core weighs them (`proj_l`) and their
// weights after (`proj_w`): it has to hold them all.
class TalkingHeads final : public AttentionModule {
 public:
  TalkingHeads(const ModuleSite& site, std::shared_ptr<const AttentionCore> core)
      : heads_(site.heads),
        scale_(1 / std::sqrt(static_cast<double>(site.channels / site.heads))),
        core_(std::move(core)),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)),
        proj_l_(Add<HeadMixture>("proj_l", site.heads)),
        proj_w_(Add<HeadMixture>("proj_w", site.heads)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor qkv = Project(tokens);
    tokens.reset();
    const at::Tensor mixed = [&] {
      const AttentionRegion region;
      return at::matmul(Weights(qkv[0], qkv[1]), qkv[2]);
    }();
    qkv.reset();
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    return Weights(qkv[0], qkv[1]).to(at::kFloat);
  }

  at::Tensor Apply(const at::Tensor& map, const at::Tensor& tokens,
                   const Grid& /*grid*/) const override {
    const at::Tensor mixed = at::matmul(map, Project(tokens)[2]);
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

 private:
  // [3, B, heads, tokens, head_dim].
  at::Tensor Project(const at::Tensor& tokens) const {
    return qkv_->forward(tokens).unflatten(2, {3, heads_, -1}).permute({2, 0, 3, 1, 4});
  }

  at::Tensor Weights(const at::Tensor& query, const at::Tensor& key) const {
    at::Tensor logits = proj_l_->forward(at::matmul(query, key.mT()), scale_);
    const at::Tensor weights = core_->Weigh(logits, query, key);
    logits.reset();
    return proj_w_->forward(weights);
  }

  const int64_t heads_;
  const double scale_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
  const std::shared_ptr<HeadMixture> proj_l_;
  const std::shared_ptr<HeadMixture> proj_w_;
};

std::shared_ptr<AttentionModule> MakeTalkingHeads(const AttentionSpec& /*spec*/,
                                                  const ModuleSite& site,
                                                  const AttentionFactory& cores) {
  return std::make_shared<TalkingHeads>(
      site, cores.Core({.head_dim = site.channels / site.heads, .keys = site.grid.tokens()}));
}

// What the class token makes of itself and the patches.
class ClassAttention final : public Layer {
 public:
  ClassAttention(const CaitConfig& config, int64_t tokens)
      : heads_(config.heads),
        core_(MakeDenseCore(AttentionSpec{.core = "dense"},
                            {.head_dim = config.channels / config.heads, .keys = tokens})),
        q_(Add<Linear>("q", config.channels, config.channels)),
        k_(Add<Linear>("k", config.channels, config.channels)),
        v_(Add<Linear>("v", config.channels, config.channels)),
        proj_(Add<Linear>("proj", config.channels, config.channels)) {}

  // tokens [B, 1 + patches, channels], the class token first -> [B, 1, channels].
  at::Tensor forward(const at::Tensor& tokens) const {
    const auto heads = [&](const at::Tensor& projected) {
      return projected.unflatten(2, {heads_, -1}).transpose(1, 2);
    };
    const at::Tensor mixed = core_->Attend(heads(q_->forward(tokens.narrow(1, 0, 1))),
                                           heads(k_->forward(tokens)), heads(v_->forward(tokens)));
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

 private:
  const int64_t heads_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> q_;
  const std::shared_ptr<Linear> k_;
  const std::shared_ptr<Linear> v_;
  const std::shared_ptr<Linear> proj_;
};

// x + gamma_1 attn(norm1(x)), then x + gamma_2 mlp(norm2(x)).
template <typename Attention>
class LayerScaleBlock final : public Layer {
 public:
  LayerScaleBlock(const CaitConfig& config, std::shared_ptr<Attention> attention)
      : norm1_(Add<LayerNorm>("norm1", config.channels)),
        attn_(register_module("attn", std::move(attention))),
        norm2_(Add<LayerNorm>("norm2", config.channels)),
        mlp_(Add<Mlp>("mlp", config.channels, config.mlp_ratio * config.channels)),
        gamma_1_(AddParameter("gamma_1", {config.channels})),
        gamma_2_(AddParameter("gamma_2", {config.channels})) {}

  // Of patches.
  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const {
    at::Tensor attention =
        AttendAndRecordMap(*attn_, norm1_->forward(tokens), grid, context, name + ".attn");
    const at::Tensor attended = at::addcmul(tokens, attention, gamma_1_);
    tokens.reset();
    if (!context.Recording()) attention.reset();
    const at::Tensor mlp = mlp_->forward(norm2_->forward(attended));
    at::Tensor output = at::addcmul(attended, mlp, gamma_2_);
    if (context.Recording()) {
      context.Record(name + ".attn", "output", attention * gamma_1_);
      context.Record(name + ".mlp", "output", mlp * gamma_2_);
      context.Record(name, "output", output);
    }
    return output;
  }

  // Of the class token [B, 1, channels], which sees itself and the patches.
  at::Tensor forward(const at::Tensor& cls, const at::Tensor& patches) const {
    const at::Tensor attention = attn_->forward(norm1_->forward(at::cat({cls, patches}, 1)));
    const at::Tensor attended = at::addcmul(cls, attention, gamma_1_);
    return at::addcmul(attended, mlp_->forward(norm2_->forward(attended)), gamma_2_);
  }

 private:
  const std::shared_ptr<LayerNorm> norm1_;
  const std::shared_ptr<Attention> attn_;
  const std::shared_ptr<LayerNorm> norm2_;
  const std::shared_ptr<Mlp> mlp_;
  at::Tensor gamma_1_;
  at::Tensor gamma_2_;
};

using PatchBlock = LayerScaleBlock<AttentionModule>;
using ClassBlock = LayerScaleBlock<ClassAttention>;

class Cait final : public PlainBackbone {
 public:
  Cait(const CaitConfig& config, const ModelDescription& description)
      : PlainBackbone({.stride = config.patch,
                       .channels = config.channels,
                       .published = {.side = config.image_side,
                                     .num_classes = config.num_classes,
                                     .preprocessing = {.crop_fraction = 1}},
                       .attention = {.text = "dense", .own = ""}},
                      description),
        config_(config),
        cls_token_(AddParameter("cls_token", {1, 1, config.channels})) {
    AddStem<PatchEmbed>("patch_embed", config.patch, config.channels);
    AddPositions("pos_embed");
    blocks_ = Add<LayerList<PatchBlock>>("blocks");
    const AttentionFactory attention = Attention(MakeTalkingHeads);
    for (int64_t i = 0; i < config.depth; ++i) {
      blocks_->Emplace(
          config,
          attention.Module(
              {.channels = config.channels, .heads = config.heads, .grid = grid(), .block = i}));
    }
    class_blocks_ = Add<LayerList<ClassBlock>>("blocks_token_only");
    for (int64_t i = 0; i < config.class_depth; ++i) {
      class_blocks_->Emplace(config, std::make_shared<ClassAttention>(config, 1 + grid().tokens()));
    }
    AddNorm();
    AddHead();
  }

  // timm's, whose patch projection keeps torch's default for a convolution.
  void Initialise(uint64_t seed) override {
    const double patch_fan_in = static_cast<double>(3 * config_.patch * config_.patch);
    for (auto& parameter : named_parameters()) {
      const std::string& name = parameter.key();
      at::Tensor& tensor = parameter.value();
      if (name.starts_with("patch_embed.proj.")) {
        RandomStream(seed, name).FillUniform(tensor, 1 / std::sqrt(patch_fan_in));
      } else if (name.ends_with(".gamma_1") || name.ends_with(".gamma_2")) {
        Fill(tensor, static_cast<float>(config_.initial_gamma));
      } else {
        InitialiseAsUsual(name, tensor, seed);
      }
    }
  }

 private:
  // Of the patches alone.
  at::Tensor Tokens(const at::Tensor& pixels, ForwardContext& context) const override {
    context.EnterStage("stem");
    at::Tensor patches = Embed(pixels);
    context.EnterStage("stage1");
    return RunBlocks(blocks_->list(), std::move(patches), grid(), context, "blocks");
  }

  at::Tensor Classify(const at::Tensor& patches) const override {
    at::Tensor cls = cls_token_.expand({patches.size(0), -1, -1});
    for (const auto& block : class_blocks_->list()) cls = block->forward(cls, patches);
    return Logits(norm().forward(cls).select(1, 0));
  }

  const CaitConfig config_;
  at::Tensor cls_token_;  // not among the patch blocks' tokens
  std::shared_ptr<LayerList<PatchBlock>> blocks_;
  std::shared_ptr<LayerList<ClassBlock>> class_blocks_;
};

}  // namespace

void RegisterCait(BackboneRegistry& registry) {
  registry.Add(Variant<Cait>("cait_s24_224", "CaiT-S24, 46.9 M parameters",
                             CaitConfig{.channels = 384, .depth = 24, .initial_gamma = 1e-5}));
  registry.Add(Variant<Cait>("cait_small_32", "CaiT-S for 32-pixel images, 12.7 M parameters",
                             CaitConfig{.image_side = 32,
                                        .patch = 4,
                                        .channels = 512,
                                        .depth = 6,
                                        .mlp_ratio = 1,
                                        .num_classes = 10}));
}

}  // namespace fovea::models
