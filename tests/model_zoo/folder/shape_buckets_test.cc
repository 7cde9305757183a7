#include "model_zoo/folder/shape_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <vector>

namespace fovea::models {
namespace {

constexpr int64_t kStride = 32;

struct Sides {
  int64_t shorter, longer;
};

class ShapeBucketsTest : public ::testing::TestWithParam<Sides> {
 protected:
  double shorter() const { return static_cast<double>(GetParam().shorter); }
  double longer() const { return static_cast<double>(GetParam().longer); }

  const std::vector<ImageSize> sizes_ =
      ShapeBuckets(GetParam().shorter, GetParam().longer, kStride);
};

// As a picture of this format, longer by shorter side, is fitted: see Preprocessing::shorter_side.
// What is no whole number is cut off.
ImageSize Fitted(double format, bool portrait, double most_short, double most_long) {
  const double side = std::min(most_short, most_long / format);
  const auto small = static_cast<int64_t>(side);
  const auto large = static_cast<int64_t>(side * format);
  return portrait ? ImageSize{large, small} : ImageSize{small, large};
}

double Area(const ImageSize& size) {
  return static_cast<double>(size.height) * static_cast<double>(size.width);
}

std::optional<ImageSize> SmallestThatHolds(const std::vector<ImageSize>& sizes,
                                           const ImageSize& picture) {
  std::optional<ImageSize> smallest;
  for (const ImageSize& size : sizes) {
    const bool holds = size.height >= picture.height && size.width >= picture.width;
    if (holds && (!smallest || Area(size) < Area(*smallest))) smallest = size;
  }
  return smallest;
}

TEST_P(ShapeBucketsTest, AreMultiplesOfTheStrideTheLargestFirstLandscapeAndPortrait) {
  EXPECT_LE(sizes_.size(), 13u);
  const std::set<ImageSize> all(sizes_.begin(), sizes_.end());
  EXPECT_EQ(all.size(), sizes_.size());
  for (const ImageSize& size : sizes_) {
    EXPECT_EQ(size.height % kStride, 0);
    EXPECT_EQ(size.width % kStride, 0);
    EXPECT_TRUE(all.contains({size.width, size.height}));
  }
  EXPECT_TRUE(std::ranges::is_sorted(sizes_, std::ranges::greater{}, Area));
}

// A picture between two formats is held by the size of the longer one where its shorter side is the
// limit, and by that of the shorter one where its longer side is. Before sides are rounded up to
// the stride, at most 1 - shorter format / longer format of that stays empty. A side of the size is
// less than a stride and a pixel above what it was made from, and one of the picture is cut off by
// less than a pixel.
TEST_P(ShapeBucketsTest, WasteOfEveryShapeIsThatOfTheFormatsBesideIt) {
  std::vector<double> formats = {1.0, 4.0 / 3, 3.0 / 2, 2.0, 3.0, 6.0, longer() / shorter()};
  std::ranges::sort(formats);
  // What is longer than the longest goes into its size, however little it fills.
  for (double format = 1; format <= 6; format += 1.0 / 1024) {
    const double next = *std::ranges::lower_bound(formats, format);
    const auto above = std::ranges::upper_bound(formats, format);
    const double previous = next == format ? format : *std::prev(above);
    for (const bool portrait : {false, true}) {
      const ImageSize picture = Fitted(format, portrait, shorter(), longer());
      const std::optional<ImageSize> size = SmallestThatHolds(sizes_, picture);
      ASSERT_TRUE(size) << format;
      const double rounded = kStride + 2;
      const double kept = previous / next * (1 - rounded / static_cast<double>(size->height)) *
                          (1 - rounded / static_cast<double>(size->width));
      EXPECT_LE(1 - Area(picture) / Area(*size), 1 - kept)
          << format << (portrait ? " portrait" : "");
    }
  }
}

TEST_P(ShapeBucketsTest, OfAPictureOfACommonFormatLessThanAStrideAtEachSideIsEmpty) {
  for (const double format : {1.0, 4.0 / 3, 3.0 / 2, 2.0, 3.0, 6.0, longer() / shorter()}) {
    for (const bool portrait : {false, true}) {
      const ImageSize picture = Fitted(format, portrait, shorter(), longer());
      const std::optional<ImageSize> size = SmallestThatHolds(sizes_, picture);
      ASSERT_TRUE(size) << format;
      EXPECT_LE(size->height - picture.height, kStride) << format;
      EXPECT_LE(size->width - picture.width, kStride) << format;
    }
  }
}

// Detectors, segmenters, and small models of scenes.
INSTANTIATE_TEST_SUITE_P(Sides, ShapeBucketsTest,
                         ::testing::Values(Sides{800, 1333}, Sides{512, 2048}, Sides{640, 640},
                                           Sides{320, 320}));

}  // namespace
}  // namespace fovea::models
