#include "model_zoo/training/model_folder.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/generated/shapes.h"

namespace fovea::models::training {
namespace {

class ModelFolderTest : public ::testing::Test {
 protected:
  ModelFolderTest()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("model_folder_test_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(root_);
  }
  ~ModelFolderTest() override { std::filesystem::remove_all(root_); }

  const std::filesystem::path root_;
};

TEST_F(ModelFolderTest, TheServersReaderFindsWhatWasWritten) {
  const std::filesystem::path path = root_ / "ten_shapes";
  const std::shared_ptr<Backbone> backbone = LoadBackbone(
      {.backbone = "vit_demo_patch8_64", .num_classes = kNumShapes, .random_weights_seed = 1});
  WriteModelFolder({.path = path,
                    .summary = "A test.",
                    .model = {.backbone = "vit_demo_patch8_64",
                              .attention = {"knn:k=0.5"},
                              .num_classes = kNumShapes},
                    .labels = {}},
                   *backbone, at::kHalf);

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
  ModelDescription seeded = model;
  seeded.random_weights_seed = 1;
  WriteModelFolder({.path = path, .summary = "A test.", .model = model, .labels = {}},
                   *LoadBackbone(seeded), at::kHalf);
  EXPECT_EQ(DescribeModelFolder(path).vit, model.vit);
}

TEST_F(ModelFolderTest, LabelsStandOneALineAndStayWhereTheWeightsCannotBeWritten) {
  ModelFolder folder{.path = root_ / "m",
                     .summary = "A test.",
                     .model = {.backbone = "vit_demo_patch8_64", .num_classes = 2},
                     .labels = {"one thing", "another"}};
  ModelDescription seeded = folder.model;
  seeded.random_weights_seed = 1;
  WriteModelFolder(folder, *LoadBackbone(seeded), at::kHalf);
  std::ifstream file(root_ / "m/labels.txt");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(text, "one thing\nanother\n");

  // What could not be written leaves what was there, and nothing beside it.
  std::filesystem::create_directories(root_ / "m/1/model.safetensors.partial");
  folder.labels = {"another", "one thing"};
  EXPECT_THROW(WriteModelFolder(folder, *LoadBackbone(seeded), at::kHalf), c10::Error);
  std::ifstream again(root_ / "m/labels.txt");
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(again)), {}), text);
  EXPECT_FALSE(std::filesystem::exists(root_ / "m/labels.txt.partial"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "m/model.textproto.partial"));
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

TEST_F(ModelFolderTest, WhereItCannotBeWrittenIsToldWithoutWriting) {
  std::filesystem::create_directories(root_ / "there/1");
  CheckWritable(root_ / "there");
  CheckWritable(root_ / "not/yet/there");
  EXPECT_FALSE(std::filesystem::exists(root_ / "not"));

  std::ofstream(root_ / "file") << "mine";
  EXPECT_THROW(CheckWritable(root_ / "file"), c10::ValueError);
  EXPECT_THROW(CheckWritable(root_ / "file/below"), c10::ValueError);
  std::filesystem::create_directory_symlink("nowhere", root_ / "link");
  EXPECT_THROW(CheckWritable(root_ / "link"), c10::ValueError);
  EXPECT_THROW(CheckWritable(root_ / "link/below"), c10::ValueError);
  std::filesystem::create_directories(root_ / "taken");
  std::ofstream(root_ / "taken/1") << "no folder of a version";
  EXPECT_THROW(CheckWritable(root_ / "taken"), c10::ValueError);
}

// A server serves the latest version, and what is measured would be that.
TEST_F(ModelFolderTest, AFolderWithAnotherVersionIsRefused) {
  std::filesystem::create_directories(root_ / "m/1");
  std::filesystem::create_directories(root_ / "m/notes");
  CheckWritable(root_ / "m");
  std::filesystem::create_directories(root_ / "m/0");  // is no version
  CheckWritable(root_ / "m");
  std::filesystem::create_directories(root_ / "m/2");
  EXPECT_THROW(CheckWritable(root_ / "m"), c10::ValueError);
}

// In a process of its own, which is not root.
TEST_F(ModelFolderTest, AFolderOfOthersCannotBeWritten) {
  std::filesystem::create_directories(root_);
  std::filesystem::permissions(root_, std::filesystem::perms(0555));
  EXPECT_EXIT(
      {
        constexpr uid_t kNobody = 65534;
        // Who cannot become nobody leaves it untried.
        if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);
        try {
          CheckWritable(root_ / "m");
        } catch (const c10::ValueError&) {
          _exit(2);
        }
        _exit(0);
      },
      testing::ExitedWithCode(2), "");
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
  ModelDescription seeded = model;
  seeded.random_weights_seed = 1;
  WriteModelFolder({.path = path,
                    .summary = "A test.",
                    .model = model,
                    .preprocessing = {.resize_mode = ResizeMode::kFit,
                                      .interpolation = Interpolation::kBilinear,
                                      .mean = {0.1f, 0.2f, 0.3f},
                                      .std = {1, 2, 3}},
                    .labels = {"a", "b"}},
                   *LoadBackbone(seeded), at::kHalf);

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
