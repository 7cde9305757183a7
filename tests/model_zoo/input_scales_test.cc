// Scales for the inputs of linear layers in 8 bits: found from what the layers saw, kept with the
// weights, and better than none where channels differ.
#include "model_zoo/quantization/input_scales.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/registry/heads.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using testing::HasSubstr;

const ModelDescription kDemo = {.backbone = "vit_demo_patch8_64", .random_weights_seed = 3};

at::Tensor Pixels(int64_t images) {
  at::manual_seed(5);
  return at::randn({images, 3, 64, 64});
}

std::vector<CalibratedLayer> Calibrate(Backbone& backbone) {
  backbone.eval();
  return CalibrateInputScales(backbone, [&] {
    ForwardContext context;
    backbone.forward(Pixels(8), context);
  });
}

TEST(InputScalesTest, EveryLayerOfTheBlocksIsCalibratedAndNoOther) {
  const std::shared_ptr<Backbone> backbone = LoadBackbone(kDemo, Heads());
  const std::vector<CalibratedLayer> layers = Calibrate(*backbone);
  EXPECT_EQ(layers.size(), 6u * 4u);
  for (const CalibratedLayer& layer : layers) {
    EXPECT_THAT(layer.name, HasSubstr("blocks."));
    EXPECT_GT(layer.by_row, 0) << layer.name;
    // Eight bits of noise: a step is 1/127 of the largest value, which is a few deviations.
    EXPECT_LT(layer.by_row, 1e-2) << layer.name;
    if (layer.scales.defined()) {
      EXPECT_LE(layer.by_scales, 2 * layer.by_row);
      EXPECT_GT(layer.scales.min().item<float>(), 0);
    }
  }
}

TEST(InputScalesTest, ScalesGoToTheFileAndBack) {
  const std::shared_ptr<Backbone> backbone = LoadBackbone(kDemo, Heads());
  const std::vector<CalibratedLayer> layers = Calibrate(*backbone);
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "calibrated.safetensors";
  SaveWeights(file, *backbone, at::kFloat);
  const std::shared_ptr<Backbone> read =
      LoadBackbone({.backbone = kDemo.backbone, .weights = file}, Heads());
  const auto modules = read->named_modules();
  for (const CalibratedLayer& layer : layers) {
    const auto& linear = dynamic_cast<const Linear&>(*modules[layer.name]);
    ASSERT_EQ(linear.input_scales().defined(), layer.scales.defined());
    if (layer.scales.defined()) EXPECT_TRUE(at::equal(linear.input_scales(), layer.scales));
  }
  // What is not INT8 has no use for them.
  ForwardContext context;
  const auto logits = [&](const ModelDescription& description, Precision precision) {
    const std::unique_ptr<Model> model = LoadModel(description);
    model->Prepare(at::kCPU, precision);
    return model->Run(Pixels(4), context).at(0);
  };
  const ModelDescription calibrated = {.backbone = kDemo.backbone, .weights = file};
  EXPECT_TRUE(at::equal(logits(calibrated, Precision::kFp32), logits(kDemo, Precision::kFp32)));
  EXPECT_FALSE(at::equal(logits(calibrated, Precision::kInt8), logits(kDemo, Precision::kInt8)));
  std::filesystem::remove(file);
}

TEST(InputScalesTest, WrongScalesAreRefusedInWords) {
  Linear layer(8, 4);
  EXPECT_THAT(ErrorOf([&] { layer.SetInputScales(at::ones({7})); }), HasSubstr("has 8 inputs"));
  for (const float wrong : {0.0f, -1.0f, 1e-35f, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    at::Tensor scales = at::ones({8});
    scales[3] = wrong;
    EXPECT_THAT(ErrorOf([&] { layer.SetInputScales(scales); }), HasSubstr("is not between"))
        << wrong;
  }
}

// Folding a norm into the layer changes what it is given.
TEST(InputScalesTest, FoldingForgetsThem) {
  Linear layer(8, 4);
  layer.SetInputScales(at::ones({8}));
  layer.FoldInput(at::full({8}, 2.0f), at::zeros({8}));
  EXPECT_FALSE(layer.input_scales().defined());
}

TEST(InputScalesTest, AModelWithoutLinearLayersIsRefused) {
  const std::shared_ptr<Backbone> backbone =
      LoadBackbone({.backbone = "resnet50", .random_weights_seed = 1}, Heads());
  EXPECT_THAT(ErrorOf([&] { CalibrateInputScales(*backbone, [] {}); }),
              HasSubstr("no linear layer that runs in INT8"));
}

}  // namespace
}  // namespace fovea::models
