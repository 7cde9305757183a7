#include "base/pixel_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fovea {
namespace {

using ::testing::ElementsAre;

TEST(PixelFormat, Row21AlphaIsRoundedLikeADivisionBy255) {
  for (int alpha = 0; alpha <= 255; ++alpha) {
    for (int color = 0; color <= 255; color += 3) {
      for (const int background : {0, 77, 255}) {
        const uint8_t level = static_cast<uint8_t>(background);
        const uint8_t rgba[4] = {static_cast<uint8_t>(color), 0, 255, static_cast<uint8_t>(alpha)};
        uint8_t rgb[3];
        RgbaOverBackground(1, rgba, {level, level, level}, rgb);
        ASSERT_EQ(rgb[0], std::lround((color * alpha + background * (255 - alpha)) / 255.0));
        ASSERT_EQ(rgb[1], std::lround(background * (255 - alpha) / 255.0));
        ASSERT_EQ(rgb[2], std::lround((255 * alpha + background * (255 - alpha)) / 255.0));
      }
    }
  }
}

TEST(PixelFormat, Row20InksAreReadInverted) {
  const uint8_t cmyk[] = {255, 255, 255, 255,   // no ink
                          0,   255, 255, 255,   // cyan
                          255, 0,   255, 255,   // magenta
                          255, 255, 0,   255,   // yellow
                          255, 255, 255, 0,     // black
                          255, 0,   0,   128};  // dark red
  uint8_t rgb[18];
  InvertedCmykToRgb(6, cmyk, rgb);
  EXPECT_THAT(
      rgb, ElementsAre(255, 255, 255, 0, 255, 255, 255, 0, 255, 255, 255, 0, 0, 0, 0, 128, 0, 0));
}

}  // namespace
}  // namespace fovea
