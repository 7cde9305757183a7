#include "model_zoo/training/model_folder.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/generated/shapes.h"

namespace fovea::models::training {
namespace {

class ModelFolderTest : public ::testing::Test {
 protected:
  ModelFolderTest() : root_(std::filesystem::path(::testing::TempDir()) / "model_folder_test") {
    std::filesystem::remove_all(root_);
  }
  ~ModelFolderTest() override { std::filesystem::remove_all(root_); }

  const std::filesystem::path root_;
};

TEST_F(ModelFolderTest, TheServersReaderFindsWhatWasWritten) {
  const std::filesystem::path path = root_ / "ten_shapes";
  WriteModelFolder({.path = path,
                    .summary = "A test.",
                    .model = {.backbone = "vit_demo_patch8_64",
                              .attention = {"knn:k=0.5"},
                              .num_classes = kNumShapes},
                    .labels = {}});
  const std::shared_ptr<Backbone> backbone = LoadBackbone(
      {.backbone = "vit_demo_patch8_64", .num_classes = kNumShapes, .random_weights_seed = 1});
  SaveWeights(path / "1/model.safetensors", *backbone, at::kHalf);

  const ModelDescription description = DescribeModelFolder(path);
  EXPECT_EQ(description.name, "ten_shapes");
  EXPECT_EQ(description.backbone, "vit_demo_patch8_64");
  EXPECT_EQ(description.attention, std::vector<std::string>{"knn:k=0.5"});
  EXPECT_EQ(description.num_classes, kNumShapes);
  EXPECT_TRUE(std::filesystem::equivalent(description.weights, path / "1/model.safetensors"));
}

TEST_F(ModelFolderTest, AVitsFolderHasItsSizes) {
  const std::filesystem::path path = root_ / "small";
  const ModelDescription model{
      .backbone = "vit",
      .num_classes = 2,
      .image_height = 64,
      .image_width = 64,
      .vit = VitSizes{.depth = 2, .width = 64, .heads = 4, .patch = 8, .mlp_width = 96}};
  WriteModelFolder({.path = path, .summary = "A test.", .model = model, .labels = {}});
  ModelDescription seeded = model;
  seeded.random_weights_seed = 1;
  SaveWeights(path / "1/model.safetensors", *LoadBackbone(seeded), at::kHalf);
  EXPECT_EQ(DescribeModelFolder(path).vit, model.vit);
}

TEST_F(ModelFolderTest, LabelsStandOneALine) {
  WriteModelFolder({.path = root_ / "m",
                    .summary = "A test.",
                    .model = {.backbone = "vit_demo_patch8_64", .num_classes = 2},
                    .labels = {"one thing", "another"}});
  std::ifstream file(root_ / "m/labels.txt");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "one thing\nanother\n");
}

TEST_F(ModelFolderTest, APathIsAbsoluteAndEndsWithTheName) {
  const std::filesystem::path here = std::filesystem::canonical(".");
  std::filesystem::create_directories(root_);
  const std::filesystem::path root = std::filesystem::canonical(root_);
  EXPECT_EQ(FolderCalled("no_models/finder"), here / "no_models/finder");
  EXPECT_EQ(FolderCalled("no_models/finder/"), here / "no_models/finder");
  EXPECT_EQ(FolderCalled("no_models/other/../finder//"), here / "no_models/finder");
  EXPECT_EQ(FolderCalled(root_ / "."), root);
  EXPECT_EQ(FolderCalled(root_.string() + "/"), root);
}

TEST_F(ModelFolderTest, NamesThatNoServerTakesAreRefused) {
  for (const char* out :
       {"/", "models/my finder", "models/a\"b", "models/a\nb", "models/knn:k=3"}) {
    EXPECT_THROW(FolderCalled(out), c10::ValueError) << out;
  }
  EXPECT_THROW(FolderCalled("models/" + std::string(129, 'a')), c10::ValueError);
}

TEST_F(ModelFolderTest, WhatNoServerTakesIsRefusedBeforeItIsWritten) {
  ModelFolder folder{.path = root_ / "m",
                     .summary = "A test.",
                     .model = {.backbone = "vit_demo_patch8_64", .num_classes = 2},
                     .labels = {"one thing", "\u00e9t\u00e9"}};
  CheckServable(folder);
  for (const std::string& label :
       {std::string(), std::string("a\tb"), std::string("a\x1b[31m"), std::string("a\nb"),
        std::string("a\r"), std::string("\xc3\x28"), std::string(1025, 'a')}) {
    folder.labels = {"one thing", label};
    EXPECT_THROW(CheckServable(folder), c10::ValueError) << label;
  }
  folder.labels = {"one", "two", "three"};
  EXPECT_THROW(CheckServable(folder), c10::ValueError);
  folder.labels = {"one", "two"};
  folder.model.image_height = folder.model.image_width = 1 << 20;
  EXPECT_THROW(CheckServable(folder), c10::ValueError);
  EXPECT_FALSE(std::filesystem::exists(root_));
}

TEST_F(ModelFolderTest, ADetectorsFolderHasItsHeadSizeAndPreprocessing) {
  const std::filesystem::path path = root_ / "finder";
  const ModelDescription model{.backbone = "linglo_demo",
                               .attention = {"dense"},
                               .task = Task::kDetection,
                               .head = "retinanet",
                               .detection = {.conventions = Conventions::kMmdetection,
                                             .score_threshold = 0.25,
                                             .nms_iou = 0.45,
                                             .detections_per_image = 7},
                               .head_channels = 16,
                               .num_classes = 2,
                               .image_height = 96,
                               .image_width = 96};
  WriteModelFolder({.path = path,
                    .summary = "A test.",
                    .model = model,
                    .preprocessing = {.resize_mode = ResizeMode::kFit,
                                      .interpolation = Interpolation::kBilinear,
                                      .mean = {0.1f, 0.2f, 0.3f},
                                      .std = {1, 2, 3}},
                    .labels = {"a", "b"}});
  ModelDescription seeded = model;
  seeded.random_weights_seed = 1;
  SaveWeights(path / "1/model.safetensors", *LoadBackbone(seeded), at::kHalf);

  const ModelDescription read = DescribeModelFolder(path);
  EXPECT_EQ(read.head, "retinanet");
  EXPECT_EQ(read.head_channels, 16);
  EXPECT_EQ(read.detection.conventions, Conventions::kMmdetection);
  EXPECT_EQ(read.detection.score_threshold, 0.25);
  EXPECT_EQ(read.detection.nms_iou, 0.45);
  EXPECT_EQ(read.detection.detections_per_image, 7);
  EXPECT_EQ(read.image_height, 96);
  EXPECT_TRUE(read.further_sizes.empty());
  const std::unique_ptr<Model> served = LoadModel(read);
  served->Prepare(c10::kCPU, read.precision);
  ForwardContext context;
  EXPECT_EQ(served->Run(at::zeros({1, 3, 96, 96}), context).size(), 4u);
  std::ifstream file(path / "model.textproto");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("mean: [0.1, 0.2, 0.3]\n  std: [1.0, 2.0, 3.0]"), text.npos) << text;
  EXPECT_NE(text.find("max_batch_size: 4\n"), text.npos) << text;
  EXPECT_NE(text.find("shorter_side: 96\n  longer_side: 96"), text.npos) << text;
}

}  // namespace
}  // namespace fovea::models::training
