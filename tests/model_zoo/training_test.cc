// What the trainer relies on: the unprepared module learns, and what it saves loads again.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

class TrainingTest : public ::testing::TestWithParam<std::string> {
 protected:
  TrainingTest() { at::manual_seed(1); }

  ModelDescription Description() const {
    return {.backbone = "vit_demo_patch8_64",
            .attention = {GetParam()},
            .num_classes = 4,
            .random_weights_seed = 5};
  }
};

TEST_P(TrainingTest, EveryParameterGetsAGradient) {
  const std::shared_ptr<Backbone> backbone = LoadBackbone(Description());
  ForwardContext context;
  backbone->forward(at::randn({2, 3, 64, 64}), context).at(0).square().sum().backward();
  for (const auto& parameter : backbone->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    // A key's bias adds the same to all logits of a row, which softmax does not see.
    if (!parameter.key().ends_with("qkv.bias")) {
      EXPECT_GT(parameter.value().grad().abs().max().item<float>(), 0) << parameter.key();
    }
  }
}

TEST_P(TrainingTest, WhatIsTrainedAnswersAsWhatIsServed) {
  const at::Tensor pixels = at::randn({3, 3, 64, 64});
  ForwardContext context;
  const at::Tensor trained = LoadBackbone(Description())->forward(pixels, context).at(0);
  const std::unique_ptr<Model> model = LoadModel(Description());
  model->Prepare(c10::kCPU, Precision::kFp32);
  const at::Tensor served = model->Run(pixels, context).at(0);
  ASSERT_TRUE(trained.requires_grad());
  EXPECT_LT(((served - trained).abs().max() / trained.std()).item<double>(), 1e-4);
}

TEST_P(TrainingTest, AFewStepsOfDescentLowerTheLoss) {
  const std::shared_ptr<Backbone> backbone = LoadBackbone(Description());
  const at::Tensor labels = at::arange(4);
  const at::Tensor pixels =
      (labels.to(at::kFloat) - 1.5).reshape({4, 1, 1, 1}).expand({4, 3, 64, 64});
  std::vector<float> losses;
  for (int step = 0; step < 8; ++step) {
    ForwardContext context;
    const at::Tensor loss =
        at::cross_entropy_loss(backbone->forward(pixels, context).at(0), labels);
    losses.push_back(loss.item<float>());
    backbone->zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : backbone->parameters()) {
      parameter.sub_(parameter.grad(), 0.01);
    }
  }
  EXPECT_LT(losses.back(), 0.8f * losses.front());
}

TEST_P(TrainingTest, WhatIsSavedLoadsAgain) {
  const auto path = std::filesystem::path(::testing::TempDir()) /
                    ("trained_" + std::to_string(::getpid()) + ".safetensors");
  const std::shared_ptr<Backbone> backbone = LoadBackbone(Description());
  SaveWeights(path, *backbone, at::kHalf);
  ModelDescription description = Description();
  description.random_weights_seed.reset();
  description.weights = path;
  const std::shared_ptr<Backbone> loaded = LoadBackbone(description);
  EXPECT_LT(std::filesystem::file_size(path), 2'000'000u);
  std::filesystem::remove(path);
  for (const auto& parameter : backbone->named_parameters()) {
    EXPECT_TRUE(at::equal(loaded->named_parameters()[parameter.key()],
                          parameter.value().to(at::kHalf).to(at::kFloat)))
        << parameter.key();
    EXPECT_TRUE(loaded->named_parameters()[parameter.key()].requires_grad());
  }
}

INSTANTIATE_TEST_SUITE_P(Attentions, TrainingTest, ::testing::Values("dense", "knn:k=0.5"),
                         [](const auto& info) { return info.index == 0 ? "Dense" : "Knn"; });

TEST(TinyFormsTest, GradientsReachEveryParameterOfEveryArchitecture) {
  for (const BackboneEntry& entry : Backbones()) {
    const std::shared_ptr<Backbone> backbone =
        entry.make_tiny({.name = "m", .backbone = entry.name});
    if (backbone->parameters().empty()) continue;
    {
      const at::NoGradGuard no_grad;
      backbone->Initialise(5);
    }
    backbone->train();
    ForwardContext context;
    const ModelInfo& info = backbone->info();
    const at::Tensor pixels = at::randn({2, 3, info.image_height, info.image_width});
    backbone->forward(pixels, context).at(0).square().sum().backward();
    for (const auto& parameter : backbone->named_parameters()) {
      if (!parameter.value().requires_grad()) continue;  // a fixed table, published as a parameter
      ASSERT_TRUE(parameter.value().grad().defined()) << entry.name << " " << parameter.key();
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>())
          << entry.name << " " << parameter.key();
    }
  }
}

TEST(SaveWeightsTest, APreparedBackboneCannotBeSaved) {
  const std::shared_ptr<Backbone> backbone =
      LoadBackbone({.backbone = "vit_demo_patch8_64", .random_weights_seed = 5});
  backbone->Prepare({});
  EXPECT_NE(ErrorOf([&] { SaveWeights("unused.safetensors", *backbone, at::kHalf); }), "no error");
}

}  // namespace
}  // namespace fovea::models
