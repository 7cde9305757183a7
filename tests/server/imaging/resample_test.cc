#include "server/imaging/resample.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <random>
#include <vector>

namespace fovea {
namespace {

std::vector<uint8_t> RandomPixels(int64_t height, int64_t width) {
  std::mt19937 random(static_cast<uint32_t>(height * 31 + width));
  std::vector<uint8_t> rgb(static_cast<size_t>(3 * height * width));
  for (uint8_t& value : rgb) value = static_cast<uint8_t>(random());
  return rgb;
}

struct Case {
  int64_t height, width;
  ResizePlan plan;
};

// Shrinking, enlarging, one axis only, windows at every edge, and sizes that leave every kind of
// rest in a vector.
const Case kCases[] = {
    {375, 500, {256, 341, 16, 58, 224, 224}},
    {37, 53, {20, 30, 0, 0, 20, 30}},
    {37, 53, {20, 30, 3, 5, 11, 7}},
    {37, 53, {20, 30, 9, 23, 11, 7}},
    {37, 53, {37, 30, 2, 3, 30, 20}},
    {37, 53, {20, 53, 1, 50, 19, 3}},
    {37, 53, {37, 53, 5, 6, 7, 8}},
    {1, 1, {64, 64, 0, 0, 64, 64}},
    {1, 9, {25, 225, 0, 100, 25, 25}},
    {9, 1, {225, 25, 100, 0, 25, 25}},
    {2, 2, {5, 3, 0, 0, 5, 3}},
    {33, 47, {224, 319, 0, 47, 224, 224}},
    {640, 9, {17, 5, 0, 0, 17, 5}},
    {9, 640, {5, 17, 0, 0, 5, 17}},
    {100, 100, {1, 1, 0, 0, 1, 1}},
    {65, 64, {64, 65, 0, 0, 64, 65}},
};

class ResampleOnEveryTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_P(ResampleOnEveryTarget, EqualsTheReferenceToTheBit) {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (const auto& [height, width, plan] : kCases) {
      const std::vector<uint8_t> rgb = RandomPixels(height, width);
      std::vector<uint8_t> expected(static_cast<size_t>(3 * plan.height * plan.width));
      std::vector<uint8_t> actual(
          expected.size());  // exact sizes: writing past them is found by the sanitizer
      ResampleReference(rgb.data(), height, width, SourceBox::Whole(height, width), plan,
                        interpolation, expected.data());
      Resample(rgb.data(), height, width, SourceBox::Whole(height, width), plan, interpolation,
               actual.data());
      EXPECT_EQ(actual, expected) << height << " x " << width << " to " << plan.resized_height
                                  << " x " << plan.resized_width;
    }
  }
}

TEST_P(ResampleOnEveryTarget, EqualsTheReferenceOnAPartOfTheSource) {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const std::vector<uint8_t> rgb = RandomPixels(53, 37);
  for (const SourceBox& box : {SourceBox{0, 0, 52.125, 36.5}, SourceBox{0.875, 0.5, 52.125, 36.5},
                               SourceBox{0, 0.25, 53, 36.75}, SourceBox{3.5, 7, 40.25, 24}}) {
    for (const ResizePlan& plan : {ResizePlan{20, 18, 2, 3, 17, 11}, {24, 24, 0, 0, 24, 24}}) {
      std::vector<uint8_t> expected(plan.bytes()), actual(plan.bytes());
      ResampleReference(rgb.data(), 53, 37, box, plan, Interpolation::kBicubic, expected.data());
      Resample(rgb.data(), 53, 37, box, plan, Interpolation::kBicubic, actual.data());
      EXPECT_EQ(actual, expected) << box.top << " " << box.left << " " << plan.resized_width;
    }
  }
}

std::vector<int64_t> Targets() {
  std::vector<int64_t> targets;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1)
    targets.push_back(left & -left);
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Targets, ResampleOnEveryTarget, ::testing::ValuesIn(Targets()),
                         [](const auto& info) { return hwy::TargetName(info.param); });

TEST(Resample, AWindowIsTheSamePartOfTheWhole) {
  const std::vector<uint8_t> rgb = RandomPixels(90, 120);
  const ResizePlan whole{41, 57, 0, 0, 41, 57};
  std::vector<uint8_t> all(3 * 41 * 57);
  Resample(rgb.data(), 90, 120, SourceBox::Whole(90, 120), whole, Interpolation::kBicubic,
           all.data());
  const ResizePlan part{41, 57, 11, 20, 13, 17};
  std::vector<uint8_t> window(3 * 13 * 17);
  Resample(rgb.data(), 90, 120, SourceBox::Whole(90, 120), part, Interpolation::kBicubic,
           window.data());
  for (int y = 0; y < 13; ++y) {
    EXPECT_TRUE(std::equal(window.begin() + 3 * 17 * y, window.begin() + 3 * 17 * (y + 1),
                           all.begin() + 3 * (57 * (11 + y) + 20)))
        << y;
  }
}

TEST(Resample, TheSameSizeIsACopy) {
  const std::vector<uint8_t> rgb = RandomPixels(33, 20);
  std::vector<uint8_t> out(rgb.size());
  Resample(rgb.data(), 33, 20, SourceBox::Whole(33, 20), {33, 20, 0, 0, 33, 20},
           Interpolation::kBicubic, out.data());
  EXPECT_EQ(out, rgb);
}

TEST(Resample, AFlatImageStaysFlat) {
  for (const uint8_t level : {0, 1, 127, 254, 255}) {
    const std::vector<uint8_t> rgb(3 * 77 * 50, level);
    std::vector<uint8_t> out(3 * 31 * 200);
    Resample(rgb.data(), 77, 50, SourceBox::Whole(77, 50), {31, 200, 0, 0, 31, 200},
             Interpolation::kBicubic, out.data());
    EXPECT_EQ(out, std::vector<uint8_t>(out.size(), level));
  }
}

}  // namespace
}  // namespace fovea
