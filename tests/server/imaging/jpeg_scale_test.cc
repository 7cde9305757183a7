#include "server/imaging/jpeg_scale.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fovea {
namespace {

PreprocessSpec Fast(PreprocessSpec spec) {
  spec.fast_decode = true;
  return spec;
}

const PreprocessSpec kClassifier = Fast({.sizes = {{224, 224}}});  // the shorter side to 256
const PreprocessSpec kSquash = Fast({.sizes = {{64, 96}}, .resize_mode = ResizeMode::kSquash});
const PreprocessSpec kDetector = Fast({.sizes = {{800, 1344}, {1344, 800}, {800, 800}},
                                       .resize_mode = ResizeMode::kFit,
                                       .shorter_side = 800,
                                       .longer_side = 1333});
const PreprocessSpec kTiny = Fast({.sizes = {{1, 1}}, .crop_fraction = 1});

ImageInfo Jpeg(int height, int width, int orientation = 1) {
  return {
      .format = ImageFormat::kJpeg, .width = width, .height = height, .orientation = orientation};
}

TEST(JpegScale, TheLargestScaleThatLeavesTwiceTheResizedSides) {
  EXPECT_EQ(HalvingsFor(Jpeg(3000, 4000), kClassifier), 2);  // 750 of 256
  EXPECT_EQ(HalvingsFor(Jpeg(4096, 4096), kClassifier), 3);  // 512 of 256
  EXPECT_EQ(HalvingsFor(Jpeg(4095, 4096), kClassifier), 2);
  EXPECT_EQ(HalvingsFor(Jpeg(1024, 1024), kClassifier), 1);
  EXPECT_EQ(HalvingsFor(Jpeg(1023, 2000), kClassifier), 0);
  EXPECT_EQ(HalvingsFor(Jpeg(3000, 4000), kDetector), 0);
  EXPECT_EQ(HalvingsFor(Jpeg(3200, 5000), kDetector), 1);
}

// Whatever the model, the picture and how the camera was held.
TEST(JpegScale, WhatIsDecodedIsAtLeastTwiceWhatIsMadeOfIt) {
  constexpr int kSides[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 64, 127, 500, 1025, 4001, 16383, 65535};
  int scaled = 0;
  for (const PreprocessSpec& spec : {kClassifier, kSquash, kDetector, kTiny}) {
    for (const int height : kSides) {
      for (const int width : kSides) {
        for (const int orientation : {1, 6}) {
          const ImageInfo info = Jpeg(height, width, orientation);
          const int halvings = HalvingsFor(info, spec);
          ASSERT_LE(halvings, kMaxHalvings);
          if (halvings == 0) continue;
          ++scaled;
          const bool turned = orientation == 6;
          const ResizePlan plan =
              PlanResize(turned ? width : height, turned ? height : width, spec);
          const SourceBox box = DecodedBox(info, halvings);
          ASSERT_GE(box.height, 2.0 * static_cast<double>(plan.resized_height))
              << height << " x " << width;
          ASSERT_GE(box.width, 2.0 * static_cast<double>(plan.resized_width))
              << height << " x " << width;
          ASSERT_GE(std::min(DecodedSide(height, halvings), DecodedSide(width, halvings)), 8);
        }
      }
    }
  }
  EXPECT_GT(scaled, 200);
}

TEST(JpegScale, SmallAndNarrowPicturesAreDecodedWhole) {
  for (const auto& [height, width] : {std::pair{1, 65535}, {65535, 1}, {7, 7}, {15, 4000}}) {
    for (const PreprocessSpec& spec : {kClassifier, kSquash, kTiny}) {
      EXPECT_EQ(HalvingsFor(Jpeg(height, width), spec), 0) << height << " x " << width;
    }
  }
}

TEST(JpegScale, OnlyJpegsOfModelsThatAskForIt) {
  ImageInfo info = Jpeg(8000, 8000);
  EXPECT_EQ(HalvingsFor(info, kClassifier), 3);
  EXPECT_EQ(HalvingsFor(info, {.sizes = {{224, 224}}}), 0);
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kWebp}) {
    info.format = format;
    EXPECT_EQ(HalvingsFor(info, kClassifier), 0);
  }
}

// 17 x 30 pixels in blocks are 3 x 4, of which an eighth leaves 3 x 4 pixels: 2.125 x 3.75 are the
// picture, and the rest is at the end of what is stored.
TEST(JpegScale, ThePaddingOfTheLastBlocksIsLeftOutWhereverItIsTurned) {
  constexpr double kBelow = 0.875, kRight = 0.25;
  const auto padding = [](int orientation) {
    const SourceBox box = DecodedBox(Jpeg(17, 30, orientation), 3);
    EXPECT_EQ(box.height, orientation < 5 ? 2.125 : 3.75) << orientation;
    EXPECT_EQ(box.width, orientation < 5 ? 3.75 : 2.125) << orientation;
    return std::pair(box.top, box.left);
  };
  EXPECT_EQ(padding(1), std::pair(0.0, 0.0));
  EXPECT_EQ(padding(2), std::pair(0.0, kRight));
  EXPECT_EQ(padding(3), std::pair(kBelow, kRight));
  EXPECT_EQ(padding(4), std::pair(kBelow, 0.0));
  EXPECT_EQ(padding(5), std::pair(0.0, 0.0));
  EXPECT_EQ(padding(6), std::pair(0.0, kBelow));
  EXPECT_EQ(padding(7), std::pair(kRight, kBelow));
  EXPECT_EQ(padding(8), std::pair(kRight, 0.0));
}

}  // namespace
}  // namespace fovea
