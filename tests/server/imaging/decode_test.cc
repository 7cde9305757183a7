#include "server/imaging/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "server/imaging/probe.h"
#include "tests/server/imaging/image_files.h"

namespace fovea {
namespace {

using testing::Decode;
using testing::File;
using testing::ImageNames;
using testing::ReadImage;
using testing::ReadPixels;

// Every image of data/ against what data/generate.py says that it holds: baseline, progressive,
// subsampled, grey, CMYK and YCCK JPEG (row 20), every kind of PNG (row 21), WebP, all orientations
// (row 19), broken profiles (row 23).
class DecodedFile : public ::testing::TestWithParam<std::string> {};

TEST_P(DecodedFile, EqualsItsReference) {
  const absl::StatusOr<RgbImage> image = Decode(ReadImage(GetParam()));
  ASSERT_TRUE(image.ok()) << image.status();
  const std::vector<uint8_t> expected = ReadPixels(GetParam());
  ASSERT_EQ(image->size(), expected.size());
  int different = 0;
  int largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const int difference = std::abs(int{image->pixels[i]} - int{expected[i]});
    different += difference != 0;
    largest = std::max(largest, difference);
  }
  EXPECT_EQ(different, 0) << "of " << expected.size() << " values, the largest by " << largest;
}

INSTANTIATE_TEST_SUITE_P(Rows19To23, DecodedFile, ::testing::ValuesIn(ImageNames()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) {
                             if (c == '.') c = '_';
                           }
                           return name;
                         });

TEST(Decode, TheReferencesCoverWhatTheyShould) { EXPECT_GE(ImageNames().size(), 90u); }

TEST(Decode, Row19EightOrientationsAreOneUprightImage) {
  for (const std::string extension : {".png", ".webp"}) {  // lossless
    const absl::StatusOr<RgbImage> first = Decode(ReadImage("orientation_1" + extension));
    ASSERT_TRUE(first.ok());
    for (int orientation = 2; orientation <= 8; ++orientation) {
      const absl::StatusOr<RgbImage> image =
          Decode(ReadImage("orientation_" + std::to_string(orientation) + extension));
      ASSERT_TRUE(image.ok());
      EXPECT_EQ(image->height, first->height);
      EXPECT_TRUE(std::ranges::equal(image->bytes(), first->bytes())) << orientation << extension;
    }
  }
}

TEST(Decode, Row20CmykAndYcckJpegsShowTheColorsThatTheyWereMadeOf) {
  const absl::StatusOr<RgbImage> cmyk = Decode(ReadImage("cmyk.jpg"));
  const absl::StatusOr<RgbImage> ycck = Decode(ReadImage("ycck.jpg"));
  ASSERT_TRUE(cmyk.ok() && ycck.ok());
  const auto pixel = [](const RgbImage& image, int y, int x) {
    return &image.pixels[3 * (y * image.width + x)];
  };
  for (const RgbImage* image : {&*cmyk, &*ycck}) {
    // The picture's red rectangle, inside.
    EXPECT_NEAR(pixel(*image, 6, 8)[0], 230, 25);
    EXPECT_NEAR(pixel(*image, 6, 8)[1], 40, 25);
    EXPECT_NEAR(pixel(*image, 6, 8)[2], 20, 25);
  }
}

TEST(Decode, Row21SixteenBitsAreRoundedToEight) {
  File rows;
  for (uint32_t row = 0; row < 256; ++row) {
    rows.push_back(std::byte(0));  // not filtered
    for (uint32_t value = 256 * row; value < 256 * (row + 1); ++value) {
      rows.push_back(std::byte(value >> 8));
      rows.push_back(std::byte(value));
    }
  }
  const absl::StatusOr<RgbImage> image =
      Decode(testing::PngSignature() + testing::PngHeader(256, 256, 16, 0) +
             testing::PngChunk("IDAT", testing::Deflate(rows)) + testing::PngChunk("IEND", {}));
  ASSERT_TRUE(image.ok()) << image.status();
  for (int value = 0; value <= 65535; ++value) {
    const long rounded = std::lround(value * 255.0 / 65535.0);
    for (int c = 0; c < 3; ++c) ASSERT_EQ(image->pixels[3 * value + c], rounded) << value;
  }
}

TEST(Decode, TransparencyShowsTheConfiguredBackground) {
  const File file = ReadImage("rgba_8.png");
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, {});
  ASSERT_TRUE(info.ok());
  const absl::StatusOr<RgbImage> image = DecodeImage(file, *info, {.background = {10, 20, 30}});
  ASSERT_TRUE(image.ok());
  // The first pixel is fully transparent, the last one opaque.
  EXPECT_THAT(image->bytes().first(3), ::testing::ElementsAre(10, 20, 30));
  const absl::StatusOr<RgbImage> opaque = Decode(ReadImage("rgb_8.png"));
  EXPECT_TRUE(std::ranges::equal(image->bytes().last(3), opaque->bytes().last(3)));
}

TEST(Decode, Row23AProfileChangesNothing) {
  const absl::StatusOr<RgbImage> plain = Decode(ReadImage("baseline.jpg"));
  const absl::StatusOr<RgbImage> with_profile = Decode(ReadImage("icc.jpg"));
  ASSERT_TRUE(plain.ok() && with_profile.ok());
  EXPECT_TRUE(std::ranges::equal(plain->bytes(), with_profile->bytes()));
}

TEST(Decode, DamagedImagesLeaveTheThreadsDecoderAsItWas) {
  const File good = ReadImage("progressive.jpg");
  const absl::StatusOr<RgbImage> before = Decode(good);
  ASSERT_TRUE(before.ok());
  for (size_t at = 200; at + 10 < good.size(); at += 7) {
    File bad = good;
    bad[at] ^= std::byte{0x55};
    (void)Decode(bad);
    const absl::StatusOr<RgbImage> after = Decode(good);
    ASSERT_TRUE(after.ok()) << at;
    ASSERT_TRUE(std::ranges::equal(before->bytes(), after->bytes())) << at;
  }
}

}  // namespace
}  // namespace fovea
