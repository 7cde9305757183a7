// CvT and LinGlo at few channels: what they learn, save and serve. Their logits are compared with
// the published ones in test_parity_cvt.py and test_parity_linglo.py.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/layers/grid.h"
#include "model_zoo/registry/backbones.h"

namespace fovea::models {
namespace {

std::shared_ptr<Backbone> Tiny(const std::string& name) {
  const std::shared_ptr<Backbone> backbone = FindBackbone(name)->make_tiny(
      {.backbone = name, .num_classes = 5, .image_height = 64, .image_width = 64});
  const at::NoGradGuard no_grad;
  backbone->Initialise(7);
  return backbone;
}

at::Tensor Pixels() {
  return at::randn({2, 3, 64, 64}, at::make_generator<at::CPUGeneratorImpl>(8));
}

at::Tensor Logits(const Backbone& backbone) {
  ForwardContext context;
  return backbone.forward(Pixels(), context).at(0);
}

// Parameters whose gradient is zero for a reason.
bool MayStandStill(const std::string& name) {
  // A key's bias adds the same to all logits of a row, which softmax does not see.
  return name.ends_with("projection_key.bias") ||
         // Behind CvT's last layer only the class token is read, and no convolution makes its
         // query.
         name.find("stages.2.layers.1.attn.attention.convolution_projection_query") == 0 ||
         // Squeezed to a single unit, which its ReLU may silence.
         name.find(".se.fc") != name.npos;
}

class LinearBackbonesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(LinearBackbonesTest, EveryParameterGetsAGradient) {
  const std::shared_ptr<Backbone> backbone = Tiny(GetParam());
  Logits(*backbone).square().sum().backward();
  for (const auto& parameter : backbone->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    if (!MayStandStill(parameter.key())) {
      EXPECT_GT(parameter.value().grad().abs().max().item<float>(), 0) << parameter.key();
    }
  }
}

TEST_P(LinearBackbonesTest, AnswersPreparedAsItDoesAfterTraining) {
  const std::shared_ptr<Backbone> backbone = Tiny(GetParam());
  Logits(*backbone);  // moves the running statistics
  backbone->eval();
  const at::Tensor trained = Logits(*backbone).detach();
  const at::NoGradGuard no_grad;
  backbone->Prepare({});
  EXPECT_LT(((Logits(*backbone) - trained).abs().max() / trained.std()).item<double>(), 1e-4);
}

TEST_P(LinearBackbonesTest, WhatIsSavedLoadsAgain) {
  const auto path = std::filesystem::path(::testing::TempDir()) /
                    ("linear_" + std::to_string(::getpid()) + ".safetensors");
  const std::shared_ptr<Backbone> backbone = Tiny(GetParam());
  SaveWeights(path, *backbone, at::kFloat);
  const std::shared_ptr<Backbone> loaded = Tiny(GetParam());
  {
    const at::NoGradGuard no_grad;
    loaded->Initialise(9);
    LoadWeights(SafetensorsFile(path), *loaded);
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(at::equal(Logits(*loaded), Logits(*backbone)));
}

INSTANTIATE_TEST_SUITE_P(Families, LinearBackbonesTest,
                         ::testing::Values("cvt_13", "linglo_b0", "linglo_b0_p_cpe",
                                           "linglo_b0_cchh", "linglo_b0_wo_c", "linglo_wo_ch"),
                         [](const auto& info) { return info.param; });

class MapCollector final : public ForwardContext {
 public:
  bool Recording() const override { return true; }
  bool WantsMaps() const override { return true; }
  void RecordMap(std::string_view, const at::Tensor& weights, const Grid& grid) override {
    maps.push_back(weights.detach());
    grids.push_back(grid);
  }
  std::vector<at::Tensor> maps;
  std::vector<Grid> grids;
};

TEST(CvtMapTest, GivesWeightToEveryOtherTokenOfEveryOtherRowAndToTheClassToken) {
  MapCollector context;
  Tiny("cvt_13")->forward(Pixels(), context);
  ASSERT_EQ(context.maps.size(), 5u);
  for (size_t i = 0; i < context.maps.size(); ++i) {
    const Grid& grid = context.grids[i];
    const at::Tensor& map = context.maps[i];
    ASSERT_EQ(map.size(3), grid.tokens());
    EXPECT_TRUE(at::allclose(map.sum(3), at::ones({}), 1e-5, 1e-5));
    const at::Tensor seen = map.sum({0, 1, 2});
    for (int64_t token = 0; token < grid.tokens(); ++token) {
      const int64_t place = token - grid.prefix_tokens;
      const bool key =
          place < 0 || ((place / grid.width) % 2 == 0 && (place % grid.width) % 2 == 0);
      EXPECT_EQ(seen[token].item<float>() > 0, key) << "layer " << i << ", token " << token;
    }
  }
}

TEST(CvtNamesTest, AreTransformersForItsOwnAttentionAndReadableForAnother) {
  const auto path = std::filesystem::path(::testing::TempDir()) /
                    ("cvt_names_" + std::to_string(::getpid()) + ".safetensors");
  const auto names = [&](const std::string& attention) {
    const std::shared_ptr<Backbone> backbone = FindBackbone("cvt_13")->make_tiny(
        {.backbone = "cvt_13", .attention = {attention}, .num_classes = 5});
    const at::NoGradGuard no_grad;
    backbone->Initialise(1);
    SaveWeights(path, *backbone, at::kHalf);
    const SafetensorsFile file(path);
    std::set<std::string> found;
    for (const StoredTensor& tensor : file.tensors()) found.insert(tensor.name);
    std::filesystem::remove(path);
    return found;
  };
  const std::string layer = "cvt.encoder.stages.2.layers.1.";
  const std::set<std::string> own = names("dense");
  for (const char* name : {"attention.attention.projection_key.bias", "attention.output.dense.bias",
                           "layernorm_before.bias", "layernorm_after.bias",
                           "intermediate.dense.bias", "output.dense.bias"}) {
    EXPECT_TRUE(own.contains(layer + name)) << name;
  }
  EXPECT_TRUE(own.contains("cvt.encoder.stages.2.cls_token"));
  EXPECT_TRUE(own.contains("layernorm.weight"));
  const std::set<std::string> other = names("self");
  EXPECT_TRUE(other.contains(layer + "attention.qkv.weight"));
  EXPECT_TRUE(other.contains(layer + "attention.proj.weight"));
}

}  // namespace
}  // namespace fovea::models
