// A head that the zoo does not have: two numbers an image, from the last map of any backbone.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/layers/linear.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using testing::ElementsAre;

class BoxesHead final : public Head {
 public:
  explicit BoxesHead(const HeadSite& site)
      : num_classes_(site.num_classes > 0 ? site.num_classes : kOwnClasses),
        linear_(Add<Linear>("linear", site.backbone.features.back().channels, 2)) {}

  std::vector<ModelInfo::Output> outputs() const override { return {{"boxes", {2}}}; }
  int64_t num_classes() const override { return num_classes_; }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& maps,
                                  ForwardContext& /*context*/) const override {
    return {linear_->forward(maps.back().mean({2, 3}))};
  }

  static constexpr int64_t kOwnClasses = 91;

 private:
  const int64_t num_classes_;
  const std::shared_ptr<Linear> linear_;
};

std::vector<HeadEntry> WithBoxes() {
  std::vector<HeadEntry> heads = Heads();
  heads.push_back({"boxes", "two numbers an image", Task::kDetection,
                   [](const HeadSite& site) { return std::make_shared<BoxesHead>(site); }});
  return heads;
}

ModelDescription Boxes(const std::string& backbone) {
  return {
      .backbone = backbone, .task = Task::kDetection, .head = "boxes", .random_weights_seed = 3};
}

// A plain one, whose maps are made of its last tokens, and one of stages.
class HeadsTest : public testing::TestWithParam<const char*> {};

TEST_P(HeadsTest, AHeadStandsBehindAnyBackboneWithMaps) {
  const std::unique_ptr<Model> model = LoadModel(Boxes(GetParam()), WithBoxes());
  const ModelInfo& info = model->info();
  ASSERT_EQ(info.outputs.size(), 1u);
  EXPECT_EQ(info.outputs[0].name, "boxes");
  EXPECT_THAT(info.outputs[0].shape, ElementsAre(2));
  EXPECT_EQ(info.num_classes, BoxesHead::kOwnClasses);
  ModelDescription of_three = Boxes(GetParam());
  of_three.num_classes = 3;
  EXPECT_EQ(LoadModel(of_three, WithBoxes())->info().num_classes, 3);

  at::manual_seed(1);
  const at::Tensor pixels = at::randn({3, 3, info.image_height, info.image_width});
  ForwardContext context;
  const at::Tensor boxes = model->Run(pixels, context).at(0);
  EXPECT_THAT(boxes.sizes(), ElementsAre(3, 2));
  // The same by hand.
  const std::shared_ptr<Backbone> network = LoadBackbone(Boxes(GetParam()), WithBoxes());
  network->eval();
  const at::NoGradGuard no_grad;
  const at::Tensor map = network->Features(pixels, context).back();
  const auto parameters = network->named_parameters();
  const at::Tensor expected = at::linear(map.mean({2, 3}), parameters["head.linear.weight"],
                                         parameters["head.linear.bias"]);
  EXPECT_TRUE(at::allclose(boxes, expected, 1e-5, 1e-6));
  EXPECT_GT(boxes.std(0).min().item<float>(), 0) << "it looks at the image";

  model->Prepare(at::kCPU, Precision::kFp32);
  EXPECT_TRUE(at::allclose(model->Run(pixels, context).at(0), boxes, 1e-4, 1e-5));
}

TEST_P(HeadsTest, AHeadRunsAtFurtherSizes) {
  ModelDescription description = Boxes(GetParam());
  description.further_sizes = {{48, 80}};
  const std::unique_ptr<Model> model = LoadModel(description, WithBoxes());
  model->Prepare(at::kCPU, Precision::kFp32);
  ModelDescription loaded = Boxes(GetParam());
  loaded.image_height = 48;
  loaded.image_width = 80;
  const std::unique_ptr<Model> alone = LoadModel(loaded, WithBoxes());
  alone->Prepare(at::kCPU, Precision::kFp32);
  const at::Tensor pixels = at::randn({2, 3, 48, 80}, at::make_generator<at::CPUGeneratorImpl>(1));
  ForwardContext context;
  EXPECT_TRUE(at::equal(model->Run(pixels, context).at(0), alone->Run(pixels, context).at(0)));
}

TEST_P(HeadsTest, TheNetworkHasNoClassifierAndItsWeightsHaveTheirOwnNames) {
  const std::shared_ptr<Backbone> network = LoadBackbone(Boxes(GetParam()), WithBoxes());
  for (const auto& parameter : network->named_parameters()) {
    EXPECT_TRUE(parameter.key().starts_with("backbone.") || parameter.key().starts_with("head."))
        << parameter.key();
  }
  // What the backbone has with classes and not without.
  ModelDescription bare{.backbone = GetParam(), .random_weights_seed = 3};
  const auto with_classes = LoadBackbone(bare)->named_parameters();
  bare.num_classes = ModelDescription::kNoClasses;
  const auto without = LoadBackbone(bare)->named_parameters();
  EXPECT_LT(without.size(), with_classes.size());
  EXPECT_EQ(network->named_parameters().size(), without.size() + 2) << "and the head's two";
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / (std::string(GetParam()) + ".safetensors");
  SaveWeights(file, *network, at::kFloat, {});
  ModelDescription stored = Boxes(GetParam());
  stored.random_weights_seed.reset();
  stored.weights = file;
  const auto loaded = LoadBackbone(stored, WithBoxes())->named_parameters();
  for (const auto& parameter : network->named_parameters()) {
    EXPECT_TRUE(at::equal(loaded[parameter.key()], parameter.value())) << parameter.key();
  }
}

TEST(HeadRegistryTest, AHeadStandsBehindEveryBackboneThatHasMaps) {
  const HeadEntry boxes = WithBoxes().back();
  for (const BackboneEntry& entry : Backbones()) {
    SCOPED_TRACE(entry.name);
    ModelDescription description = Boxes(entry.name);
    description.num_classes = ModelDescription::kNoClasses;
    const std::shared_ptr<Backbone> backbone = entry.make_tiny(description);
    if (backbone->info().features.empty()) {
      EXPECT_EQ(entry.name, "identity");
      continue;
    }
    const std::shared_ptr<Backbone> network = WithHead(backbone, boxes, Boxes(entry.name));
    const at::NoGradGuard no_grad;
    network->Initialise(1);
    network->eval();
    ForwardContext context;
    const ModelInfo& info = network->info();
    const at::Tensor pixels = at::ones({1, 3, info.image_height, info.image_width});
    EXPECT_THAT(network->forward(pixels, context).at(0).sizes(), ElementsAre(1, 2));
  }
}

INSTANTIATE_TEST_SUITE_P(PlainAndStaged, HeadsTest,
                         testing::Values("vit_demo_patch8_64", "cvt_13_32"));

TEST(HeadRegistryTest, TheClassifierIsTheUsualHead) {
  EXPECT_EQ(Heads().front().name, "classifier");
  const ModelDescription usual{.backbone = "vit_demo_patch8_64", .random_weights_seed = 0};
  ModelDescription named = usual;
  named.head = "classifier";
  EXPECT_EQ(LoadModel(named)->info().outputs[0].name, LoadModel(usual)->info().outputs[0].name);
}

// Before anything is moved there: no GPU is needed to be told so.
TEST(HeadRegistryTest, WhatCannotStandIsSaidInWords) {
  const auto error = [](const ModelDescription& description) {
    return ErrorOf([&] { LoadModel(description, WithBoxes()); });
  };
  ModelDescription description = Boxes("vit_demo_patch8_64");
  description.head = "bo\nxes";
  EXPECT_EQ(error(description), "there is no head 'bo?xes'; did you mean 'boxes'?");
  description.head = "boxes";
  description.task = Task::kSegmentation;
  EXPECT_EQ(error(description), "the head 'boxes' is for detection, and the task is segmentation");
  ModelDescription of_many{.backbone = "vit_demo_patch8_64", .task = Task::kDetection};
  of_many.num_classes = 5'001;
  EXPECT_EQ(error(of_many),
            "the head 'retinanet' tells 5000 classes apart at most, not 5001: at that many, the "
            "logits of an image of 800x1344 take 4 GB");
  of_many.head = "mask_rcnn";
  of_many.num_classes = 100'001;
  EXPECT_EQ(error(of_many),
            "the head 'mask_rcnn' tells 100000 classes apart at most, not 100001: at that many, "
            "what it says of an image's regions takes 2.4 GB");
  EXPECT_EQ(error(Boxes("identity")),
            "the head 'boxes' stands on feature maps, and identity has none");
  description = Boxes("vit_demo_patch8_64");
  description.head.clear();
  EXPECT_EQ(LoadModel(description, WithBoxes())->info().outputs.size(), 4u)
      << "the task's usual one, RetinaNet";
  description.task = Task::kSegmentation;
  EXPECT_EQ(LoadModel(description, WithBoxes())->info().outputs.at(0).name, "logits") << "UPerNet";
  description.num_classes = 15'001;
  EXPECT_EQ(error(description), "the head 'upernet' tells 15000 classes apart at most, not 15001");
}

}  // namespace
}  // namespace fovea::models
