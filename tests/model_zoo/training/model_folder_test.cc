#include "model_zoo/training/model_folder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/shapes.h"

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
                    .backbone = "vit_demo_patch8_64",
                    .attention = "knn:k=0.5"});
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

TEST_F(ModelFolderTest, LabelsAreTheShapesInOrder) {
  WriteModelFolder({.path = root_ / "m",
                    .summary = "A test.",
                    .backbone = "vit_demo_patch8_64",
                    .attention = "dense"});
  std::ifstream file(root_ / "m/labels.txt");
  std::string label;
  int lines = 0;
  while (std::getline(file, label)) EXPECT_EQ(label, Name(static_cast<Shape>(lines++)));
  EXPECT_EQ(lines, kNumShapes);
}

}  // namespace
}  // namespace fovea::models::training
