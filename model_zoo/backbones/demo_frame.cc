// A small frame for comparing trained attentions: a plain vision transformer whose tokens all lie
// on the map, so that every family of attention can stand in it, and whose four heads divide as
// each of them needs.
//   Ours, after Dosovitskiy et al. 2021 without the class token: the mean of the normalised tokens
//   is classified, as in timm's vision transformers with global_pool="avg", whose names these are.
#include <ATen/ATen.h>

#include "model_zoo/backbones/plain_backbone.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/layers/patch_embed.h"

namespace fovea::models {
namespace {

struct FrameConfig {
  int64_t image_side = 64;
  int64_t patch = 8;
  int64_t channels = 128;
  int64_t depth = 4;
  int64_t heads = 4;
  int64_t mlp_ratio = 2;
  int64_t window = 4;  // a quarter of the map: windows shift, axes are longer than a window
  int64_t num_classes = 10;
};

FrameConfig Shrunk(FrameConfig config) {
  config.channels = 8 * config.heads;
  config.depth = 2;
  return config;
}

class DemoFrame final : public PlainBackbone {
 public:
  DemoFrame(const FrameConfig& config, const ModelDescription& description)
      : PlainBackbone({.stride = config.patch,
                       .channels = config.channels,
                       .published = {.side = config.image_side, .num_classes = config.num_classes}},
                      description) {
    AddStem<PatchEmbed>("patch_embed", config.patch, config.channels);
    AddPositions("pos_embed");
    AddBlocks(config.depth, config.mlp_ratio * config.channels,
              {.heads = config.heads, .window = config.window});
    AddNorm();
    AddHead();
  }

 private:
  at::Tensor Classify(const at::Tensor& tokens) const override {
    return Logits(norm().forward(tokens).mean(1));
  }
};

}  // namespace

void RegisterDemoFrame(BackboneRegistry& registry) {
  registry.Add(Variant<DemoFrame>("demo_frame_64",
                                  "a small frame for 64-pixel images, in which the families of "
                                  "attention are trained side by side",
                                  FrameConfig{}));
}

}  // namespace fovea::models
