#include "server/imaging/drawing/heat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace fovea {
namespace {

using Pixel = std::array<int, 3>;

RgbImage Plain(int height, int width, uint8_t level) {
  RgbImage image = RgbImage::Allocate(height, width);
  std::fill_n(image.pixels.get(), image.size(), level);
  return image;
}

Pixel At(const RgbImage& image, int y, int x) {
  const uint8_t* pixel = image.pixels.get() + 3 * (y * image.width + x);
  return {pixel[0], pixel[1], pixel[2]};
}

// The ends of viridis (Smith and van der Walt 2015).
constexpr Pixel kLeast = {68, 1, 84}, kLargest = {253, 231, 37};

void ExpectNear(const Pixel& actual, const Pixel& expected, int tolerance = 1) {
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(actual[c], expected[c], tolerance) << "channel " << c;
}

TEST(HeatTest, ColoursGoFromTheLeastNumberToTheLargest) {
  const std::vector<float> values = {2, 6};
  const RgbImage drawn = DrawHeat(Plain(4, 40, 100), ImageTransform::Identity(4, 40),
                                  {values, 1, 2}, HeatForm::kAlone);
  ASSERT_EQ(drawn.height, 4);
  ASSERT_EQ(drawn.width, 40);
  // Beyond the middles of the outer places nothing changes.
  ExpectNear(At(drawn, 0, 0), kLeast);
  ExpectNear(At(drawn, 3, 9), kLeast);
  ExpectNear(At(drawn, 0, 39), kLargest);
  ExpectNear(At(drawn, 3, 30), kLargest);
  // Half-way: viridis's middle, 0.128 0.567 0.551.
  ExpectNear(At(drawn, 1, 20), {33, 145, 140}, 5);
}

TEST(HeatTest, AMarkedPlaceHasALightRingAroundIt) {
  RgbImage drawn = Plain(64, 128, 100);
  MarkPlace(drawn, 40.5, 20.5);
  ExpectNear(At(drawn, 20, 40), {100, 100, 100});  // it stays visible itself
  EXPECT_GT(At(drawn, 20, 45)[0], 180);
  EXPECT_LT(At(drawn, 20, 46)[0], 80) << "a dark edge";
  ExpectNear(At(drawn, 20, 60), {100, 100, 100});
  MarkPlace(drawn, 128, 64);  // partly outside
}

TEST(HeatTest, AMapLiesWhereTheModelSawIt) {
  // Of 60 x 100 pixels, halved, the model saw 20 x 20 from (5, 15): pixels 10 to 50, 30 to 70.
  const ImageTransform seen{.source_height = 60,
                            .source_width = 100,
                            .resized_height = 30,
                            .resized_width = 50,
                            .top = 5,
                            .left = 15,
                            .height = 20,
                            .width = 20,
                            .input_height = 20,
                            .input_width = 20};
  std::vector<float> values(16, 0);
  values[1 * 4 + 2] = 1;  // rows 20 to 30 and columns 50 to 60 of the picture
  const RgbImage drawn = DrawHeat(Plain(60, 100, 200), seen, {values, 4, 4}, HeatForm::kAlone);
  const auto brightest = [&] {
    std::array<int, 3> found = {0, 0, -1};
    for (int y = 0; y < 60; ++y) {
      for (int x = 0; x < 100; ++x) {
        const int level = At(drawn, y, x)[1];
        if (level > found[2]) found = {y, x, level};
      }
    }
    return found;
  }();
  EXPECT_NEAR(brightest[0], 24.5, 1);
  EXPECT_NEAR(brightest[1], 54.5, 1);
  for (const auto& [y, x] : {std::pair(5, 50), std::pair(55, 50), std::pair(30, 20),
                             std::pair(30, 80), std::pair(9, 30), std::pair(10, 29)}) {
    EXPECT_EQ(At(drawn, y, x), (Pixel{0, 0, 0})) << y << " " << x << ": was not seen";
  }
  ExpectNear(At(drawn, 10, 30), kLeast);
  ExpectNear(At(drawn, 49, 69), kLeast);
}

TEST(HeatTest, APictureInACornerOfTheInputHasItsOwnPartOfTheMap) {
  // A detector's: 12 x 6 pixels in an input of 12 x 12. The map's right half is nobody's.
  const ImageTransform seen{.source_height = 12,
                            .source_width = 6,
                            .resized_height = 12,
                            .resized_width = 6,
                            .height = 12,
                            .width = 6,
                            .input_height = 12,
                            .input_width = 12};
  const std::vector<float> values = {0, 1, 0, 0};
  const RgbImage drawn = DrawHeat(Plain(12, 6, 0), seen, {values, 1, 4}, HeatForm::kAlone);
  // The middles of the first two places.
  ExpectNear(At(drawn, 6, 1), kLeast);
  ExpectNear(At(drawn, 6, 4), kLargest);
}

TEST(HeatTest, ThePictureIsSeenThroughIt) {
  RgbImage image = Plain(2, 4, 255);
  std::fill_n(image.pixels.get(), 6, uint8_t{0});  // two black pixels, upper left
  const std::vector<float> values = {5};
  const RgbImage drawn =
      DrawHeat(image, ImageTransform::Identity(2, 4), {values, 1, 1}, HeatForm::kOverlay);
  const Pixel black = At(drawn, 0, 0), white = At(drawn, 1, 3);
  for (int c = 0; c < 3; ++c) {
    EXPECT_EQ(black[c], std::lround(0.4 * kLeast[c]));
    EXPECT_EQ(white[c], std::lround(0.4 * kLeast[c] + 0.6 * 255));
  }
}

TEST(HeatTest, WhatIsNoNumberCountsAsTheLeast) {
  const std::vector<float> values = {std::numeric_limits<float>::quiet_NaN(), 1, 3};
  const RgbImage drawn =
      DrawHeat(Plain(1, 3, 0), ImageTransform::Identity(1, 3), {values, 1, 3}, HeatForm::kAlone);
  ExpectNear(At(drawn, 0, 0), kLeast);
  ExpectNear(At(drawn, 0, 1), kLeast);
  ExpectNear(At(drawn, 0, 2), kLargest);
  const std::vector<float> none(3, std::numeric_limits<float>::infinity());
  ExpectNear(
      At(DrawHeat(Plain(1, 3, 0), ImageTransform::Identity(1, 3), {none, 1, 3}, HeatForm::kAlone),
         0, 1),
      kLeast);
}

}  // namespace
}  // namespace fovea
