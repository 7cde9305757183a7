// Vision transformer, DeiT and DINO.
//   ViT: Dosovitskiy et al. 2021. DeiT: Touvron et al. 2021 (the distilled form has a second prefix
//   token and a second head). DINO: Caron et al. 2021 (ViT-S and ViT-B without a head). Code
//   followed: timm 1.0 (vision_transformer.py, deit.py): token order class, distillation, patches;
//   LayerNorm epsilon 1e-6; exact GELU; at inference the two heads of the distilled form are
//   averaged. Different here: the final norm is applied to the prefix tokens only, since nothing
//   reads the others; training the distilled form against a teacher is not offered.
//
//   vit_small_32: Static Key Attention in Vision, table 9 (images of 32 pixels, patches of 4).
//   vit: timm's VisionTransformer in the sizes of the description, for checkpoints of one's own.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model_zoo/backbones/plain_backbone.h"
#include "model_zoo/backbones/register.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/layers/patch_embed.h"
#include "model_zoo/weights/random.h"

namespace fovea::models {
namespace {

struct VitConfig {
  int64_t image_side = 224;
  int64_t patch = 16;
  int64_t channels = 0;
  int64_t depth = 12;
  int64_t heads = 0;
  int64_t mlp_width = 0;  // 0: four times the channels
  bool distilled = false;
  int64_t num_classes =
      1000;  // 0: published without a head, its output is the class token's features
  Preprocessing preprocessing;
};

VitConfig Shrunk(VitConfig config) {
  config.mlp_width = config.mlp_width * 8 * config.heads / config.channels;
  config.channels = 8 * config.heads;
  config.depth = 2;
  return config;
}

void CheckSize(const char* name, int64_t value, int64_t most) {
  TORCH_CHECK_VALUE(value >= 1 && value <= most, "vit's ", name, " is ", value,
                    "; it must lie between 1 and ", most);
}

// `config` in the sizes that the description asks for. Throws c10::ValueError in words where there
// can be no such transformer, or none that this machine should allocate.
VitConfig Sized(VitConfig config, const ModelDescription& description) {
  if (!description.vit) return config;
  const VitSizes& sizes = *description.vit;
  constexpr int64_t kChannelsOfAHead = 64;
  const auto given = [](int64_t size, int64_t otherwise) { return size != 0 ? size : otherwise; };
  config.depth = given(sizes.depth, config.depth);
  config.channels = given(sizes.width, config.channels);
  config.patch = given(sizes.patch, config.patch);
  CheckSize("depth", config.depth, VitSizes::kMaxDepth);
  CheckSize("width", config.channels, VitSizes::kMaxWidth);
  config.mlp_width = given(sizes.mlp_width, 4 * config.channels);
  CheckSize("mlp_width", config.mlp_width, VitSizes::kMaxMlpWidth);
  TORCH_CHECK_VALUE(sizes.heads != 0 || config.channels % kChannelsOfAHead == 0,
                    "vit's heads are not given, and its width of ", config.channels,
                    " does not divide into heads of ", kChannelsOfAHead);
  config.heads = given(sizes.heads, config.channels / kChannelsOfAHead);
  CheckSize("heads", config.heads, config.channels);
  TORCH_CHECK_VALUE(config.channels % config.heads == 0, "vit's width of ", config.channels,
                    " does not divide into ", config.heads, " heads");
  const int64_t height = given(description.image_height, config.image_side);
  const int64_t width = given(description.image_width, config.image_side);
  CheckSize("patch_size", config.patch, std::min(height, width));
  const int64_t patches = (height / config.patch) * (width / config.patch);
  TORCH_CHECK_VALUE(patches <= VitSizes::kMaxPatches, "vit cuts ", height, "x", width,
                    " pixels into ", patches, " patches of ", config.patch, " pixels, which are ",
                    "more than ", VitSizes::kMaxPatches);
  const int64_t classes = std::max<int64_t>(0, given(description.num_classes, config.num_classes));
  // Matrices and positions; biases and norms are few beside them.
  const double parameters =
      static_cast<double>(config.channels) *
      static_cast<double>(config.depth * (4 * config.channels + 2 * config.mlp_width) + patches +
                          3 * config.patch * config.patch + classes);
  TORCH_CHECK_VALUE(parameters <= static_cast<double>(VitSizes::kMaxParameters),
                    "vit in these sizes has about ", parameters / 1e9,
                    " billion learned numbers, more than ",
                    static_cast<double>(VitSizes::kMaxParameters) / 1e9, " billion");
  return config;
}

class Vit final : public PlainBackbone {
 public:
  Vit(const VitConfig& config, const ModelDescription& description)
      : PlainBackbone({.stride = config.patch,
                       .channels = config.channels,
                       .published = {.side = config.image_side,
                                     .num_classes = config.num_classes,
                                     .preprocessing = config.preprocessing}},
                      description),
        patch_(config.patch) {
    AddStem<PatchEmbed>("patch_embed", config.patch, config.channels);
    AddPrefixToken("cls_token");
    if (config.distilled) AddPrefixToken("dist_token");
    AddPositions("pos_embed");
    const int64_t mlp_width = config.mlp_width > 0 ? config.mlp_width : 4 * config.channels;
    AddBlocks(config.depth, mlp_width, {.heads = config.heads});
    AddNorm();
    AddHead();
    if (config.distilled && info().num_classes > 0) {
      head_dist_ = Add<Linear>("head_dist", config.channels, info().num_classes);
      head_dist_->KeepPrecision();
    }
  }

  // timm's init_weights_vit_timm; deviations are small enough that its truncation at +-2 never
  // acts.
  void Initialise(uint64_t seed) override {
    const double patch_fan_in = static_cast<double>(3 * patch_ * patch_);
    for (auto& parameter : named_parameters()) {
      const std::string& name = parameter.key();
      at::Tensor& tensor = parameter.value();
      const RandomStream random(seed, name);
      if (name.starts_with("patch_embed.proj.")) {
        random.FillUniform(tensor,
                           1 / std::sqrt(patch_fan_in));  // torch's default for a convolution
      } else if (name == "cls_token") {
        random.FillNormal(tensor, 1e-6);
      } else {
        InitialiseAsUsual(name, tensor, seed);
      }
    }
  }

 private:
  at::Tensor Classify(const at::Tensor& tokens) const override {
    const at::Tensor prefix = norm().forward(tokens.narrow(1, 0, grid().prefix_tokens));
    const at::Tensor logits = Logits(prefix.select(1, 0));
    if (!head_dist_) return logits;
    return (logits + head_dist_->forward(prefix.select(1, 1))) / 2;
  }

  const int64_t patch_;
  std::shared_ptr<Linear> head_dist_;  // null without distillation, and without classes
};

}  // namespace

void RegisterVit(BackboneRegistry& registry) {
  auto add = [&registry](std::string name, std::string summary, const VitConfig& config) {
    registry.Add(Variant<Vit>(std::move(name), std::move(summary), config));
  };
  const VitConfig tiny{.channels = 192, .heads = 3};
  const VitConfig small{.channels = 384, .heads = 6};
  const VitConfig base{.channels = 768, .heads = 12};
  auto distilled = [](VitConfig config) {
    config.distilled = true;
    return config;
  };
  auto headless = [](VitConfig config) {
    config.num_classes = 0;
    return config;
  };
  auto augreg = [](VitConfig config) {  // timm's default weights of this name (Steiner et al. 2021)
    config.preprocessing.mean = config.preprocessing.std = {0.5f, 0.5f, 0.5f};
    return config;
  };
  add("vit_tiny_patch16_224", "ViT-Ti/16, 5.7 M parameters", augreg(tiny));
  add("vit_small_patch16_224", "ViT-S/16, 22.1 M parameters", augreg(small));
  add("vit_base_patch16_224", "ViT-B/16, 86.6 M parameters", augreg(base));
  add("deit_tiny_patch16_224", "DeiT-Ti, 5.7 M parameters", tiny);
  add("deit_small_patch16_224", "DeiT-S, 22.1 M parameters", small);
  add("deit_base_patch16_224", "DeiT-B, 86.6 M parameters", base);
  add("deit_tiny_distilled_patch16_224", "DeiT-Ti with a distillation token", distilled(tiny));
  add("deit_small_distilled_patch16_224", "DeiT-S with a distillation token", distilled(small));
  add("deit_base_distilled_patch16_224", "DeiT-B with a distillation token", distilled(base));
  add("vit_small_patch16_224.dino",
      "DINO ViT-S/16: features of the class token, or a linear head where the model has classes",
      headless(small));
  add("vit_base_patch16_224.dino",
      "DINO ViT-B/16: features of the class token, or a linear head where the model has classes",
      headless(base));
  add("vit_demo_patch8_64", "a small ViT for 64-pixel images, for the bundled demo models",
      {.image_side = 64,
       .patch = 8,
       .channels = 128,
       .depth = 6,
       .heads = 4,
       .mlp_width = 256,
       .num_classes = 10});
  add("vit_small_32", "ViT-S for 32-pixel images, 9.5 M parameters",
      {.image_side = 32,
       .patch = 4,
       .channels = 512,
       .depth = 6,
       .heads = 8,
       .mlp_width = 512,
       .num_classes = 10});
  const VitConfig free = augreg(small);
  registry.Add(
      {.name = "vit",
       .summary = "a ViT in sizes of your own (`vit`); without any, ViT-S/16",
       .make = [free](const ModelDescription& description) -> std::shared_ptr<Backbone> {
         return std::make_shared<Vit>(Sized(free, description), description);
       },
       .make_tiny = [free](const ModelDescription& description) -> std::shared_ptr<Backbone> {
         return std::make_shared<Vit>(Shrunk(Sized(free, description)), description);
       },
       .takes_vit_sizes = true});
}

}  // namespace fovea::models
