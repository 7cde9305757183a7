#include "server/imaging/drawing/picture_canvas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace fovea {
namespace {

constexpr Rgb kBlue = {0, 0, 255};

// Pixels that are not white within a part of the picture.
int Inked(const RgbImage& image, int left, int top, int right, int bottom) {
  int inked = 0;
  for (int y = top; y < bottom; ++y) {
    for (int x = left; x < right; ++x) {
      const uint8_t* const pixel = &image.pixels[3 * (y * image.width + x)];
      inked += pixel[0] != 255 || pixel[1] != 255 || pixel[2] != 255;
    }
  }
  return inked;
}

TEST(PictureCanvas, DrawsInUnits) {
  PictureCanvas canvas(40, 20, 2);
  canvas.Line({5, 10}, {35, 10}, 1, kBlue);
  canvas.Dot({20, 4}, 2, kBlue);
  const RgbImage image = std::move(canvas).Take();
  ASSERT_EQ(image.width, 80);
  ASSERT_EQ(image.height, 40);
  const uint8_t* const on_the_line = &image.pixels[3 * (20 * 80 + 40)];
  EXPECT_LT(on_the_line[0], 128);
  EXPECT_EQ(on_the_line[2], 255);
  EXPECT_GT(Inked(image, 36, 4, 45, 13), 30) << "a dot four units wide";
  EXPECT_EQ(Inked(image, 0, 24, 80, 40), 0);
  EXPECT_EQ(Inked(image, 0, 16, 6, 24), 0) << "left of the line";
}

TEST(PictureCanvas, TextsLieAsTheyAreAnchored) {
  const auto draw = [](PictureCanvas::Anchor anchor, const char* text) {
    PictureCanvas canvas(100, 20, 1);
    canvas.Text({50, 15}, anchor, text, 12, kBlue);
    return std::move(canvas).Take();
  };
  const RgbImage start = draw(PictureCanvas::Anchor::kStart, "words");
  EXPECT_EQ(Inked(start, 0, 0, 49, 20), 0);
  EXPECT_GT(Inked(start, 49, 0, 100, 20), 20);
  const RgbImage end = draw(PictureCanvas::Anchor::kEnd, "words");
  EXPECT_GT(Inked(end, 0, 0, 51, 20), 20);
  EXPECT_EQ(Inked(end, 52, 0, 100, 20), 0);
  const RgbImage middle = draw(PictureCanvas::Anchor::kMiddle, "words");
  EXPECT_GT(Inked(middle, 25, 0, 50, 20), 5);
  EXPECT_GT(Inked(middle, 50, 0, 75, 20), 5);
  // A character that the font lacks is one question mark, however many bytes it has.
  const RgbImage foreign = draw(PictureCanvas::Anchor::kStart, "\xe6\xbc\xa2");
  const RgbImage question = draw(PictureCanvas::Anchor::kStart, "?");
  EXPECT_TRUE(std::equal(foreign.bytes().begin(), foreign.bytes().end(), question.bytes().begin()));
}

}  // namespace
}  // namespace fovea
