// Expected sizes are those of timm 1.0.31's transforms_imagenet_eval; test_pillow_parity.py
// compares many more with timm itself.
#include "server/imaging/resize_plan.h"

#include <gtest/gtest.h>

#include "base/status.h"

namespace fovea {
namespace {

struct Case {
  int64_t height, width;
  PreprocessSpec spec;
  ResizePlan plan;
};

PreprocessSpec Square(int64_t side, double crop_fraction) {
  return {.height = side, .width = side, .crop_fraction = crop_fraction};
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

TEST(ResizePlan, AnOblongModelIsCoveredByTheRoundedSize) {
  const PreprocessSpec spec{.height = 256, .width = 192, .crop_fraction = 1.0};
  // 375 / 256 is the smaller ratio: 500 / (375 / 256) = 341.33
  EXPECT_EQ(PlanResize(375, 500, spec), (ResizePlan{256, 341, 0, 74, 256, 192}));
  EXPECT_EQ(PlanResize(500, 375, spec), (ResizePlan{256, 192, 0, 0, 256, 192}));
}

TEST(ResizePlan, SquashingScalesEachSideForItself) {
  PreprocessSpec spec{
      .height = 100, .width = 60, .resize_mode = ResizeMode::kSquash, .crop_fraction = 1.0};
  EXPECT_EQ(PlanResize(375, 500, spec), (ResizePlan{100, 60, 0, 0, 100, 60}));
  // floor(100 / 0.875) = 114, floor(60 / 0.875) = 68.
  spec.crop_fraction = 0.875;
  EXPECT_EQ(PlanResize(375, 500, spec), (ResizePlan{114, 68, 7, 4, 100, 60}));
}

TEST(ResizePlan, TheWindowLiesInsideForEverySize) {
  for (const double fraction : {0.01, 0.5, 0.875, 0.9, 0.95, 1.0}) {
    for (int64_t height = 1; height <= 2100; height += 13) {
      for (int64_t width = 1; width <= 2100; width += 17) {
        for (const PreprocessSpec& spec :
             {Square(32, fraction),
              PreprocessSpec{.height = 31, .width = 77, .crop_fraction = fraction}}) {
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
  EXPECT_FALSE(CheckPreprocessSpec({.height = 0}).ok());
  EXPECT_FALSE(CheckPreprocessSpec({.width = 5000}).ok());
}

}  // namespace
}  // namespace fovea
