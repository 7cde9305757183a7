// Expected sizes are those of timm 1.0.31's transforms_imagenet_eval; test_pillow_parity.py
// compares many more with timm itself.
#include "server/imaging/resize_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"

namespace fovea {
namespace {

struct Case {
  int64_t height, width;
  PreprocessSpec spec;
  ResizePlan plan;
};

PreprocessSpec Square(int64_t side, double crop_fraction) {
  return {.sizes = {{side, side}}, .crop_fraction = crop_fraction};
}

TEST(ResizePlan, TheShorterSideIsScaledAndTheMiddleKept) {
  for (const auto& [height, width, spec, plan] : {
           // 500 x 375: the longer side is cut off, 256 * 500 / 375 = 341.33; (341 - 224) / 2
           // = 58.5 goes to even.
           Case{375, 500, Square(224, 0.875), {256, 341, 16, 58, 224, 224}},
           Case{500, 375, Square(224, 0.875), {341, 256, 58, 16, 224, 224}},
           // floor(224 / 0.9) = 248
           Case{375, 500, Square(224, 0.9), {248, 330, 12, 53, 224, 224}},
           Case{224, 224, Square(224, 1.0), {224, 224, 0, 0, 224, 224}},
           Case{1, 1, Square(224, 0.875), {256, 256, 16, 16, 224, 224}},
           Case{1, 1000, Square(224, 0.875), {256, 256'000, 16, 127'888, 224, 224}},
       }) {
    EXPECT_EQ(PlanResize(height, width, spec), plan) << height << " x " << width;
  }
}

TEST(ResizePlan, ACropsOffsetMayBeRoundedDownAsTransformersDoes) {
  PreprocessSpec spec = Square(224, 0.875);
  spec.floor_crop_offset = true;
  // (341 - 224) / 2 = 58.5, (259 - 224) / 2 = 17.5: to even they are 58 and 18.
  EXPECT_EQ(PlanResize(375, 500, spec), (ResizePlan{256, 341, 16, 58, 224, 224}));
  EXPECT_EQ(PlanResize(256, 259, spec), (ResizePlan{256, 259, 16, 17, 224, 224}));
  spec.floor_crop_offset = false;
  EXPECT_EQ(PlanResize(256, 259, spec), (ResizePlan{256, 259, 16, 18, 224, 224}));
}

TEST(ResizePlan, AnOblongModelIsCoveredByTheRoundedSize) {
  const PreprocessSpec spec{.sizes = {{256, 192}}, .crop_fraction = 1.0};
  // 375 / 256 is the smaller ratio: 500 / (375 / 256) = 341.33
  EXPECT_EQ(PlanResize(375, 500, spec), (ResizePlan{256, 341, 0, 74, 256, 192}));
  EXPECT_EQ(PlanResize(500, 375, spec), (ResizePlan{256, 192, 0, 0, 256, 192}));
}

TEST(ResizePlan, SquashingScalesEachSideForItself) {
  PreprocessSpec spec{
      .sizes = {{100, 60}}, .resize_mode = ResizeMode::kSquash, .crop_fraction = 1.0};
  EXPECT_EQ(PlanResize(375, 500, spec), (ResizePlan{100, 60, 0, 0, 100, 60}));
  // floor(100 / 0.875) = 114, floor(60 / 0.875) = 68.
  spec.crop_fraction = 0.875;
  EXPECT_EQ(PlanResize(375, 500, spec), (ResizePlan{114, 68, 7, 4, 100, 60}));
}

PreprocessSpec Fit(std::vector<ImageSize> sizes, int64_t shorter, int64_t longer) {
  return {.sizes = std::move(sizes),
          .resize_mode = ResizeMode::kFit,
          .shorter_side = shorter,
          .longer_side = longer};
}

// The sides are those of torchvision's GeneralizedRCNNTransform(800, 1333).
TEST(ResizePlan, FittingKeepsTheShapeAndTakesTheSmallestSizeThatHoldsIt) {
  const PreprocessSpec spec =
      Fit({{800, 1344}, {1344, 800}, {800, 1216}, {800, 1088}, {1088, 800}, {800, 800}}, 800, 1333);
  EXPECT_EQ(PlanResize(480, 640, spec), (ResizePlan{800, 1066, 0, 0, 800, 1066, 3}));
  EXPECT_EQ(PlanResize(640, 480, spec), (ResizePlan{1066, 800, 0, 0, 1066, 800, 4}));
  EXPECT_EQ(PlanResize(427, 640, spec), (ResizePlan{800, 1199, 0, 0, 800, 1199, 2}));
  EXPECT_EQ(PlanResize(3000, 3000, spec), (ResizePlan{800, 800, 0, 0, 800, 800, 5}));
  // 2:1, so the longer side decides.
  EXPECT_EQ(PlanResize(500, 1000, spec), (ResizePlan{666, 1333, 0, 0, 666, 1333, 0}));
  EXPECT_EQ(PlanResize(1, 1000, spec), (ResizePlan{1, 1333, 0, 0, 1, 1333, 0}));
}

TEST(ResizePlan, WhatNoSizeHoldsBecomesAsLargeAsOneDoes) {
  // Sides are not asked for, or are more than there is room.
  for (const PreprocessSpec& spec :
       {Fit({{96, 96}, {64, 128}}, 0, 0), Fit({{96, 96}, {64, 128}}, 800, 1333)}) {
    EXPECT_EQ(PlanResize(200, 200, spec), (ResizePlan{96, 96, 0, 0, 96, 96, 0}));
    EXPECT_EQ(PlanResize(100, 200, spec), (ResizePlan{64, 128, 0, 0, 64, 128, 1}));
    EXPECT_EQ(PlanResize(200, 100, spec), (ResizePlan{96, 48, 0, 0, 96, 48, 0}));
  }
}

TEST(ResizePlan, AFittedImageLiesInsideOfItsSize) {
  const PreprocessSpec spec = Fit({{64, 96}, {96, 64}, {48, 48}}, 60, 90);
  for (int64_t height = 1; height <= 700; height += 3) {
    for (int64_t width = 1; width <= 700; width += 7) {
      const ResizePlan plan = PlanResize(height, width, spec);
      const ImageSize& size = spec.sizes[plan.size];
      ASSERT_GE(plan.height, 1);
      ASSERT_GE(plan.width, 1);
      ASSERT_LE(plan.height, size.height);
      ASSERT_LE(plan.width, size.width);
      ASSERT_LE(std::min(plan.height, plan.width), 60);
      ASSERT_LE(std::max(plan.height, plan.width), 90);
      // One side is what the aspect ratio makes of the other, which is as long as it may be.
      const auto follows = [](int64_t side, int64_t of, int64_t from, int64_t source) {
        return side == std::max<int64_t>(1, of * from / source);
      };
      ASSERT_TRUE(follows(plan.width, width, plan.height, height) ||
                  follows(plan.height, height, plan.width, width))
          << height << " x " << width;
    }
  }
}

TEST(ResizePlan, TheWindowLiesInsideForEverySize) {
  for (const double fraction : {0.01, 0.5, 0.875, 0.9, 0.95, 1.0}) {
    for (int64_t height = 1; height <= 2100; height += 13) {
      for (int64_t width = 1; width <= 2100; width += 17) {
        for (const PreprocessSpec& spec : {Square(32, fraction), PreprocessSpec{.sizes = {{31, 77}},
                                                                 .crop_fraction = fraction}}) {
          const ResizePlan plan = PlanResize(height, width, spec);
          ASSERT_GE(plan.top, 0);
          ASSERT_GE(plan.left, 0);
          ASSERT_LE(plan.top + plan.height, plan.resized_height);
          ASSERT_LE(plan.left + plan.width, plan.resized_width);
        }
      }
    }
  }
}

TEST(ResizePlan, ImpossibleSpecsAreRefused) {
  EXPECT_TRUE(CheckPreprocessSpec({}).ok());
  for (const double fraction : {0.0, -1.0, 1.01, 0.001, std::numeric_limits<double>::quiet_NaN()}) {
    const absl::Status status = CheckPreprocessSpec({.crop_fraction = fraction});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(status), "model.bad_preprocessing");
  }
  EXPECT_FALSE(CheckPreprocessSpec({.sizes = {}}).ok());
  EXPECT_FALSE(CheckPreprocessSpec({.sizes = {{0, 224}}}).ok());
  EXPECT_FALSE(CheckPreprocessSpec({.sizes = {{224, 224}, {224, 5000}}}).ok());
  EXPECT_TRUE(CheckPreprocessSpec({.shorter_side = 800, .longer_side = 1333}).ok());
  EXPECT_FALSE(CheckPreprocessSpec({.shorter_side = 800}).ok());
  EXPECT_FALSE(CheckPreprocessSpec({.shorter_side = 800, .longer_side = 799}).ok());
  EXPECT_FALSE(CheckPreprocessSpec({.shorter_side = -1, .longer_side = 5}).ok());
}

}  // namespace
}  // namespace fovea
