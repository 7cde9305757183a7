// The frame of the plain vision transformers, whose tokens keep their number and width from the
// first block to the last.
//   Dosovitskiy et al. 2021: a stem makes patches of pixels, prefix tokens stand before them,
//   positions are added; blocks, a norm, a head. Feature maps: layers/simple_pyramid.h.
//
// A constructor names the parts in the order that their parameters shall have:
//   AddStem<PatchEmbed>("patch_embed", patch, channels);
//   AddPrefixToken("cls_token");
//   AddPositions("pos_embed");
//   AddBlocks(depth, mlp_hidden, {.heads = heads});
//   AddNorm();
//   AddHead();
// A backbone whose tokens or classifier are made otherwise overrides Tokens or Classify and leaves
// out what it has no use for; positions and the norm every one has.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/registry/stage_attentions.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/blocks/transformer_block.h"
#include "model_zoo/layers/grid.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

struct PlainOptions {
  int64_t stride = 0;  // pixels to a token
  int64_t channels = 0;
  double norm_epsilon = 1e-6;
  PublishedInput published;
  PublishedStage attention = {.text = "dense"};
};

class PlainBackbone : public Backbone {
 public:
  std::vector<at::Tensor> forward(const at::Tensor& pixels, ForwardContext& context) const final;
  std::vector<at::Tensor> Features(const at::Tensor& pixels, ForwardContext& context) const final;
  const ModelInfo& info() const final { return info_; }
  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const final;
  void Initialise(uint64_t seed) override;

 protected:
  // Throws c10::ValueError in words where the image does not divide into patches of the stride, or
  // the description's texts are not attentions.
  PlainBackbone(const PlainOptions& options, const ModelDescription& description);

  // The layer whose forward makes patches [N, height * width, channels] of pixels.
  template <typename Stem, typename... Args>
  void AddStem(const std::string& name, Args&&... args) {
    stem_ = [stem = Add<Stem>(name, std::forward<Args>(args)...)](const at::Tensor& pixels) {
      return stem->forward(pixels);
    };
  }
  // A learned token before the patches, behind those that were added before; has a position, so it
  // is added before these.
  void AddPrefixToken(const std::string& name);
  // A learned table with a row for every token; for other images than it was learned on, resized.
  void AddPositions(const std::string& name);
  // The same, of sines: stored with the weights, never trained.
  void AddSinePositions(const std::string& name);
  // `blocks`, of the described attention. `site` says what is particular to this backbone;
  // channels, grid and block are filled in. Throws c10::Error where it cannot stand there.
  void AddBlocks(int64_t depth, int64_t mlp_hidden, ModuleSite site);
  void AddNorm();  // `norm`
  void AddHead();  // `head`, where the model has classes

  // The tokens [N, grid().tokens(), channels] behind the last block, not normalised; undefined when
  // the context stopped the pass. By default embedded pixels through AddBlocks' blocks.
  virtual at::Tensor Tokens(const at::Tensor& pixels, ForwardContext& context) const;
  // The output of such tokens. By default that of the first one, normalised.
  virtual at::Tensor Classify(const at::Tensor& tokens) const;

  // For overriders. Pixels through the stem and Placed.
  at::Tensor Embed(const at::Tensor& pixels) const { return Placed(stem_(pixels)); }
  // patches [N, height * width, channels] -> [N, grid().tokens(), channels]: behind the prefix
  // tokens, with their positions.
  at::Tensor Placed(const at::Tensor& patches) const;
  // What blocks other than AddBlocks' are given; `own` builds the backbone's own module.
  AttentionFactory Attention(AttentionFactory::ModuleBuilder own) const;
  // features [N, channels] -> logits [N, classes]; the features, where the model has no classes.
  at::Tensor Logits(const at::Tensor& features) const;

  const Grid& grid() const { return grid_; }  // whole once the prefix tokens are added
  const LayerNorm& norm() const { return *norm_; }

 private:
  const int64_t channels_;
  const double norm_epsilon_;
  ModelInfo info_;
  const StageAttentions attentions_;
  Grid grid_;
  const bool dense_;           // a detector or segmenter, of any input size
  const Grid published_grid_;  // without prefix tokens
  std::function<at::Tensor(const at::Tensor& pixels)> stem_;
  std::vector<at::Tensor> prefix_;
  std::string positions_name_;
  bool sines_ = false;
  at::Tensor positions_;
  std::shared_ptr<TransformerBlocks> blocks_;
  std::shared_ptr<LayerNorm> norm_;
  std::shared_ptr<Linear> head_;  // null where the model gives features
};

}  // namespace fovea::models
