#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/attention_spec.h"
#include "model_zoo/attention/registry/attentions.h"
#include "model_zoo/backbones/backbone.h"
#include "model_zoo/registry/backbones.h"

namespace fovea::models {
namespace {

using ::testing::IsSupersetOf;

template <typename Entries>
std::set<std::string> Names(const Entries& entries) {
  std::set<std::string> names;
  for (const auto& entry : entries) {
    EXPECT_TRUE(names.emplace(entry.name).second) << entry.name << " is listed twice";
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
  }
  return names;
}

TEST(RegistryTest, ListsTheFirstFamilies) {
  EXPECT_THAT(
      Names(Backbones()),
      IsSupersetOf({"vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224",
                    "vit_base_patch16_224.dino", "deit_tiny_patch16_224", "deit_small_patch16_224",
                    "deit_base_patch16_224", "deit_tiny_distilled_patch16_224",
                    "deit_small_distilled_patch16_224", "deit_base_distilled_patch16_224",
                    "vit_small_patch16_224.dino", "vit_demo_patch8_64", "identity"}));
  EXPECT_THAT(Names(Cores()), IsSupersetOf({"dense", "knn"}));
  EXPECT_THAT(Names(AttentionModules()),
              IsSupersetOf({"self", "shifted_window", "axial", "criss_cross", "pale",
                            "cross_shaped", "aewin"}));
}

TEST(RegistryTest, FindsNothingUnderAnUnknownName) {
  EXPECT_EQ(FindBackbone("deit_tiny"), nullptr);
}

TEST(RegistryTest, EveryAttentionCanBeNamedWithItsOptions) {
  const std::map<std::string_view, std::string> values = {{"temperature", "temperature=2"},
                                                          {"k", "k=1"},
                                                          {"exact", "exact"},
                                                          {"window", "window=4"},
                                                          {"scale", "scale=2"},
                                                          {"activation", "activation=gelu"},
                                                          {"heads", "heads=2"},
                                                          {"interpolate", "interpolate"}};
  const auto text = [&](std::string_view name, const std::vector<std::string_view>& options) {
    std::string named(name);
    for (size_t i = 0; i < options.size(); ++i) {
      named += (i == 0 ? ":" : ",") + values.at(options[i]);
    }
    return named;
  };
  for (const CoreEntry& core : Cores()) {
    const std::string named = text(core.name, core.options);
    EXPECT_NO_THROW(AttentionSpec::Parse(named, Attentions())) << named;
  }
  for (const AttentionModuleEntry& module : AttentionModules()) {
    const std::string named = text(module.name, module.options);
    const AttentionSpec spec = AttentionSpec::Parse(named, Attentions());
    EXPECT_EQ(spec.core.empty(), !module.takes_core) << named;
  }
}

TEST(RegistryTest, EveryBackboneSaysWhatItTakesAndGives) {
  for (const BackboneEntry& entry : Backbones()) {
    const std::shared_ptr<Backbone> backbone = entry.make({.name = "m", .backbone = entry.name});
    const ModelInfo& info = backbone->info();
    EXPECT_EQ(info.backbone, entry.name);
    EXPECT_GT(info.image_height, 0) << entry.name;
    EXPECT_GT(info.image_width, 0) << entry.name;
    ASSERT_FALSE(info.outputs.empty()) << entry.name;
    EXPECT_FALSE(info.outputs[0].shape.empty()) << entry.name;
    EXPECT_EQ(info.features.empty(), entry.name == "identity") << entry.name;
    const bool attends = entry.name != "identity" && entry.name != "resnet50";
    EXPECT_EQ(info.attention.empty(), !attends) << entry.name;
    EXPECT_EQ(info.tokens > 1, attends) << entry.name;
  }
}

TEST(RegistryTest, WithoutClassesEveryBackboneGivesTheFeaturesThatItDescribes) {
  const at::NoGradGuard no_grad;
  for (const BackboneEntry& entry : Backbones()) {
    SCOPED_TRACE(entry.name);
    if (entry.name == "identity") continue;
    const std::shared_ptr<Backbone> backbone =
        entry.make_tiny({.backbone = entry.name, .num_classes = ModelDescription::kNoClasses});
    backbone->Initialise(1);
    backbone->eval();
    backbone->Prepare({});
    const ModelInfo& info = backbone->info();
    ASSERT_EQ(info.outputs.size(), 1u);
    EXPECT_EQ(info.outputs[0].name, "features");
    ForwardContext context;
    const at::Tensor features =
        backbone->forward(at::ones({2, 3, info.image_height, info.image_width}), context).at(0);
    EXPECT_EQ(features.sizes(), at::IntArrayRef({2, info.outputs[0].shape.at(0)}));
  }
}

}  // namespace
}  // namespace fovea::models
