#include "server/imaging/drawing/line_charts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace fovea {
namespace {

// Whether a pixel has the colour of the first line.
bool IsLine(const RgbImage& image, int y, int x) {
  const uint8_t* pixel = image.pixels.get() + 3 * (y * image.width + x);
  return pixel[0] == 0 && pixel[1] == 114 && pixel[2] == 178;
}

// The highest of a column's pixels that is; none where there is none.
std::optional<int> Highest(const RgbImage& image, int left, int right) {
  for (int y = 0; y < image.height; ++y) {
    for (int x = left; x < right; ++x) {
      if (IsLine(image, y, x)) return y;
    }
  }
  return std::nullopt;
}

TEST(LineChartsTest, TwoChartsInARow) {
  const LineChart chart{.title = "a", .lines = {{.values = {1.0, 2.0}}}};
  const RgbImage one = DrawLineCharts({chart}, "layer");
  const RgbImage two = DrawLineCharts({chart, chart}, "layer");
  const RgbImage three = DrawLineCharts({chart, chart, chart}, "layer");
  EXPECT_EQ(two.height, one.height);
  EXPECT_EQ(three.height, 2 * one.height);
  EXPECT_EQ(three.width, two.width);
  EXPECT_FALSE(Highest(one, one.width / 2, one.width).has_value());
  EXPECT_TRUE(Highest(two, two.width / 2, two.width).has_value());
}

TEST(LineChartsTest, AHeadingStandsAboveAllCharts) {
  const LineChart chart{.title = "a", .lines = {{.values = {1.0, 2.0}}}};
  const RgbImage without = DrawLineCharts({chart}, "layer");
  const RgbImage with = DrawLineCharts({chart}, "layer", "shapes/1, dense");
  ASSERT_GT(with.height, without.height);
  EXPECT_EQ(with.width, without.width);
  const int above = with.height - without.height;
  const uint8_t* first = with.pixels.get();
  const uint8_t* chart_begins = first + 3 * above * with.width;
  EXPECT_TRUE(std::any_of(first, chart_begins, [](uint8_t level) { return level < 128; }));
  EXPECT_TRUE(std::equal(chart_begins, first + 3 * with.height * with.width, without.pixels.get()));
}

TEST(LineChartsTest, AxesBeginAtZeroWhereTheLinesStillHaveAFifth) {
  const auto bottom = [](double least) {  // of the smaller number, from below
    const RgbImage drawn = DrawLineCharts({{.lines = {{.values = {least, 1.0}}}}}, "layer");
    return drawn.height - *Highest(drawn, 0, drawn.width / 12);
  };
  EXPECT_GT(bottom(0.75), bottom(0.95) + 50);  // far above the axis, and near it
}

TEST(LineChartsTest, WhatIsLargerStandsHigher) {
  const RgbImage drawn =
      DrawLineCharts({{.title = "rises", .lines = {{.values = {0.0, 1.0, 4.0}}}}}, "layer");
  const int half = drawn.width / 2;
  const auto first = Highest(drawn, 0, half / 3), last = Highest(drawn, half - 30, half);
  ASSERT_TRUE(first && last);
  EXPECT_GT(*first, *last + 100);
}

TEST(LineChartsTest, WhatIsNotThereIsAGap) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const RgbImage drawn = DrawLineCharts(
      {{.title = "gap", .lines = {{.values = {1.0, std::nullopt, nan, nan, 2.0}}}}}, "layer");
  const int half = drawn.width / 2;
  EXPECT_FALSE(Highest(drawn, half / 3, 2 * half / 3).has_value());
  EXPECT_TRUE(Highest(drawn, 0, half / 3).has_value());
}

TEST(LineChartsTest, NothingAndEqualNumbersAreDrawnToo) {
  DrawLineCharts({}, "layer");
  DrawLineCharts({{.title = "\xc3\xa9", .lines = {{}}}}, "layer");
  const double infinity = std::numeric_limits<double>::infinity();
  DrawLineCharts({{.title = "far", .lines = {{.values = {infinity, -infinity, 1e300, -1e300}}}}},
                 "layer");
  const RgbImage flat = DrawLineCharts({{.title = "flat", .lines = {{.values = {3.0, 3.0}}}}}, "n");
  EXPECT_TRUE(Highest(flat, 0, flat.width / 2).has_value());
}

}  // namespace
}  // namespace fovea
