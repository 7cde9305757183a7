// What a training is where the command says little.
#include "model_zoo/training/training_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/data/picture_files/picture_file.h"
#include "model_zoo/training/training_defaults.h"

namespace fovea::models::training {
namespace {

TEST(TrainingPlanTest, ScenesAreSquareLyingAndUprightInTurn) {
  const TrainingPlan plan = PlanOf({.out = "finder", .scenes = true});
  const cv::Size sizes[] = {
      {kSceneSide, kSceneSide}, {kSceneSide, kSceneSide * 3 / 4}, {kSceneSide * 3 / 4, kSceneSide}};
  for (uint64_t index = 0; index < 6; ++index) {
    SCOPED_TRACE(index);
    EXPECT_EQ(plan.data.training->Get(index).rgb.size(), sizes[index % 3]);
    EXPECT_EQ(plan.data.validation->Get(index).rgb.size(), sizes[index % 3]);
  }
}

TEST(TrainingPlanTest, ScenesAreAsLargeAsTheInput) {
  const TrainingPlan plan = PlanOf({.out = "finder", .scenes = true, .image_size = 64});
  EXPECT_EQ(plan.data.training->Get(0).rgb.size(), cv::Size(64, 64));
  EXPECT_EQ(plan.data.training->Get(1).rgb.size(), cv::Size(64, 48));
  EXPECT_EQ(plan.model.image_height, 64);
}

TEST(TrainingPlanTest, WhatIsNotSaidFollowsFromTheTask) {
  const TrainingPlan shapes = PlanOf({.out = "shapes"});
  EXPECT_EQ(shapes.model.task, Task::kClassification);
  EXPECT_EQ(shapes.options.epochs, 24);
  EXPECT_EQ(shapes.options.steps_per_epoch, 9'600 / 64);
  EXPECT_EQ(shapes.options.peak_learning_rate, 1e-3);
  const TrainingPlan finder = PlanOf({.out = "finder", .scenes = true});
  EXPECT_EQ(finder.model.task, Task::kDetection);
  EXPECT_EQ(finder.options.epochs, 30);
  EXPECT_EQ(finder.options.steps_per_epoch, 1'600 / 16);
  EXPECT_EQ(finder.options.peak_learning_rate, 2e-3);
  EXPECT_EQ(finder.data.validation->size(), 400u);
}

// The labels are made before the head is: both have to know of the background.
TEST(TrainingPlanTest, TheBackgroundIsALabelWhereTheHeadCountsIt) {
  struct Case {
    const char *head, *conventions;
    int64_t background;
  };
  for (const auto& [head, conventions, background] :
       {Case{"mask_rcnn", "TORCHVISION", 1}, Case{"mask_rcnn", "MMDETECTION", 0},
        Case{"retinanet", "TORCHVISION", 0}, Case{"retinanet", "MMDETECTION", 0}}) {
    SCOPED_TRACE(std::string(head) + " " + conventions);
    const TrainingPlan plan = PlanOf({.out = "finder",
                                      .scenes = true,
                                      .head = head,
                                      .conventions = conventions,
                                      .head_channels = 32,
                                      .image_size = 64});
    EXPECT_EQ(HeadOf(*plan.backbone)->background_classes(), background);
    std::vector<std::string> labels(background, "background");
    const std::vector<std::string>& of_data = plan.data.training->labels();
    labels.insert(labels.end(), of_data.begin(), of_data.end());
    EXPECT_EQ(plan.labels, labels);
  }
}

// 1,025 masks of 512 x 512 are more than 256 MiB.
TEST(TrainingPlanTest, PicturesOfTooManyMasksAreNotLearnedFrom) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) /
                                       ("too_many_masks_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "images");
  std::ostringstream images, annotations;
  for (int id = 0; id < 5; ++id) {
    WritePng(folder / "images" / (std::to_string(id) + ".png"), cv::Mat::zeros(4, 4, CV_8UC3));
    images << (id > 0 ? "," : "") << R"({"id":)" << id << R"(,"file_name":")" << id << R"(.png"})";
    for (int object = 0; object < (id == 3 ? 1025 : 1); ++object) {
      annotations << (id + object > 0 ? "," : "") << R"({"image_id":)" << id
                  << R"(,"category_id":1,"segmentation":[[0,0,2,0,2,2]]})";
    }
  }
  std::ofstream(folder / "annotations.json")
      << R"({"images":[)" << images.str()
      << R"(],"categories":[{"id":1,"name":"x"}],"annotations":[)" << annotations.str() << "]}";
  for (const auto& [head, pictures] : {std::pair("mask_rcnn", 4), {"retinanet", 5}}) {
    const TrainingPlan plan = PlanOf(
        {.out = "finder", .data = folder, .head = head, .head_channels = 32, .image_size = 512});
    EXPECT_EQ(plan.data.training->size() + plan.data.validation->size(), pictures) << head;
  }
  std::filesystem::remove_all(folder);
}

// What the help tells is what is done.
TEST(TrainingPlanTest, TheHelpTellsTheDefaults) {
  Arguments arguments;
  CLI::App app;
  AddOptions(app, arguments);
  const auto of = [&app](const char* option) { return app.get_option(option)->get_description(); };
  EXPECT_NE(of("--epochs").find("; 24, of scenes and data 30"), std::string::npos);
  EXPECT_NE(of("--images-per-epoch").find("9600, of scenes 1600;"), std::string::npos);
  EXPECT_NE(of("--batch-size").find("64, of scenes and data 16"), std::string::npos);
  EXPECT_NE(of("--learning-rate").find("0.001, of detectors and segmenters 0.002"),
            std::string::npos);
  EXPECT_NE(of("--validation-images").find("2400, of scenes 400;"), std::string::npos);
  EXPECT_NE(of("--image-size").find("of scenes 128"), std::string::npos);
  EXPECT_NE(of("--score-threshold").find("--from's, or 0.05"), std::string::npos);
  EXPECT_NE(of("--nms-iou").find("--from's, or 0.5"), std::string::npos);
}

TEST(ArgumentsTest, EveryOptionSaysWhatItDoes) {
  Arguments arguments;
  CLI::App app;
  AddOptions(app, arguments);
  for (const CLI::Option* option : app.get_options()) {
    EXPECT_FALSE(option->get_description().empty()) << option->get_name();
    // Who looks one option up has not read the one before it.
    EXPECT_EQ(option->get_description().find("Likewise"), std::string::npos) << option->get_name();
  }
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(FOVEA_SOURCE_DIR) /
                                      "docs/measuring/datasets.md"));
  EXPECT_NE(app.get_option("--data")->get_description().find("docs/measuring/datasets.md"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea::models::training
