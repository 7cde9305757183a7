#include "model_zoo/training/comparison/comparison.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/registry/load.h"

namespace fovea::models::training {
namespace {

const std::filesystem::path kDemo = std::filesystem::path(FOVEA_SOURCE_DIR) / "model_zoo/demo";

TEST(ComparisonTest, TellsWhatEachModelKnowsAndCosts) {
  const ComparisonOptions options{.seed = 1, .images = 200, .rounds = 3};
  const std::vector<ComparedModel> models =
      Compare({kDemo / "shapes", kDemo / "shapes_with_knn"}, options);
  ASSERT_EQ(models.size(), 2u);
  EXPECT_EQ(models[0].folder, kDemo / "shapes");
  EXPECT_EQ(models[0].attention, "dense");
  EXPECT_EQ(models[1].folder, kDemo / "shapes_with_knn");
  EXPECT_EQ(models[1].attention, "knn:k=0.5");
  for (const ComparedModel& model : models) {
    SCOPED_TRACE(model.folder);
    const std::unique_ptr<Model> alone = LoadModel(DescribeModelFolder(model.folder));
    EXPECT_EQ(model.parameters, alone->info().parameters);
    alone->Prepare(c10::kCPU, Precision::kFp32);
    const Score score = Evaluate(ClassifierOf(*alone), options.seed, Stream::kTest, options.images);
    EXPECT_EQ(model.score.images, 200);
    EXPECT_EQ(model.score.correct, score.correct);
    EXPECT_GT(model.milliseconds[0], 0);
    EXPECT_GT(model.milliseconds[1], 0);
    // At least one map of tokens a picture, of one and of sixteen; threads have scratch besides.
    EXPECT_GT(model.peak_bytes[0], 65 * 128 * 4);
    EXPECT_GT(model.peak_bytes[1], 16 * 65 * 128 * 4);
    EXPECT_GT(model.peak_bytes[1], 2 * model.peak_bytes[0]);
    EXPECT_LT(model.peak_bytes[1], 32 * model.peak_bytes[0]);
  }
  EXPECT_EQ(models[0].multiply_adds, models[1].multiply_adds);  // by definition: all logits
}

TEST(ComparisonTest, WritesALineAModel) {
  const auto file = std::filesystem::path(::testing::TempDir()) /
                    ("comparison_" + std::to_string(::getpid()) + ".csv");
  WriteCsv({{.folder = "models/a",
             .backbone = "frame",
             .attention = "cska:heads=2,none",
             .parameters = 7,
             .multiply_adds = 8,
             .score = {.images = 4, .correct = 3, .loss = 0.5},
             .milliseconds = {1.5, 2.5},
             .peak_bytes = {10, 20}}},
           file);
  std::ifstream in(file);
  std::string names, line, rest;
  ASSERT_TRUE(std::getline(in, names) && std::getline(in, line));
  EXPECT_FALSE(std::getline(in, rest));
  EXPECT_EQ(names,
            "model,backbone,attention,parameters,multiply_adds,images,correct,loss,milliseconds_1,"
            "peak_bytes_1,milliseconds_16,peak_bytes_16");
  EXPECT_EQ(line, "a,frame,\"cska:heads=2,none\",7,8,4,3,0.5,1.5,10,2.5,20");
  std::filesystem::remove(file);
}

TEST(ComparisonTest, WhatCannotBeServedIsRefused) {
  EXPECT_ANY_THROW(Compare({kDemo / "nothing"}, {.images = 10, .rounds = 1}));
  EXPECT_THROW(Compare({kDemo / "shapes"}, {.images = 10, .rounds = 0}), c10::ValueError);
  EXPECT_THROW(WriteCsv({}, "/dev/null/comparison.csv"), std::exception);
}

}  // namespace
}  // namespace fovea::models::training
