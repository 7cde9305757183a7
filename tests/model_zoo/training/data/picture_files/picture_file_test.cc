#include "model_zoo/training/data/picture_files/picture_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "model_zoo/training/data/sample_source.h"
#include "tests/model_zoo/folder/temp_repository.h"
#include "tests/server/imaging/image_files.h"

namespace fovea::models::training {
namespace {

std::string TextOf(const fovea::testing::File& file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

std::string ErrorOf(const std::filesystem::path& file) {
  try {
    ReadPicture(file);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

// Every format, depth, orientation and transparency that the server is tested with.
TEST(PictureFileTest, PixelsAreTheServers) {
  const TempRepository folder;
  int pictures = 0;
  for (const std::string& name : fovea::testing::ImageNames()) {
    folder.Write(name, TextOf(fovea::testing::ReadImage(name)));
    const cv::Mat rgb = ReadPicture(folder / name);
    const std::vector<uint8_t> expected = fovea::testing::ReadPixels(name);
    ASSERT_EQ(rgb.total() * 3, expected.size()) << name;
    ASSERT_TRUE(rgb.isContinuous());
    EXPECT_EQ(std::memcmp(rgb.data, expected.data(), expected.size()), 0) << name;
    ++pictures;
  }
  EXPECT_GT(pictures, 80);
}

TEST(PictureFileTest, LevelsAreReadAsTheyAreStored) {
  const TempRepository folder;
  cv::Mat bytes(3, 5, CV_8U), words(3, 5, CV_16U);
  for (int i = 0; i < 15; ++i) {
    bytes.at<uint8_t>(i / 5, i % 5) = static_cast<uint8_t>(i == 7 ? 255 : i);
    words.at<uint16_t>(i / 5, i % 5) = static_cast<uint16_t>(i == 7 ? 65535 : 300 * i);
  }
  for (const cv::Mat& levels : {bytes, words}) {
    WritePng(folder / "levels.png", levels);
    const cv::Mat read = ReadLevels(folder / "levels.png");
    ASSERT_EQ(read.type(), levels.type());
    EXPECT_EQ(cv::norm(read, levels, cv::NORM_INF), 0);
  }
  // Of a palette the indices, in however few bits.
  folder.Write("palette.png", TextOf(fovea::testing::ReadImage("palette_2.png")));
  const cv::Mat indices = ReadLevels(folder / "palette.png");
  EXPECT_EQ(indices.type(), CV_8U);
  EXPECT_LE(cv::norm(indices, cv::NORM_INF), 3);
  EXPECT_GT(cv::norm(indices, cv::NORM_INF), 0);

  // Of equal channels one.
  WritePng(folder / "rgb.png", cv::Mat(2, 2, CV_8UC3, cv::Scalar::all(3)));
  EXPECT_EQ(cv::norm(ReadLevels(folder / "rgb.png"), cv::Mat(2, 2, CV_8U, cv::Scalar(3))), 0);
  WritePng(folder / "rgb.png", cv::Mat(2, 2, CV_8UC3, cv::Scalar(1, 2, 3)));
  EXPECT_THROW(ReadLevels(folder / "rgb.png"), DataError);
}

TEST(PictureFileTest, WhatIsWrittenIsRead) {
  const TempRepository folder;
  cv::Mat rgb(7, 11, CV_8UC3);
  cv::randu(rgb, 0, 256);
  WritePng(folder / "a.png", rgb);
  EXPECT_EQ(cv::norm(ReadPicture(folder / "a.png"), rgb, cv::NORM_INF), 0);
  EXPECT_THROW(WritePng(folder / "nowhere/a.png", rgb), std::runtime_error);
}

TEST(PictureFileTest, ErrorsNameTheFile) {
  const TempRepository folder;
  folder.Write("text.jpg", "no picture");
  EXPECT_EQ(ErrorOf(folder / "text.jpg"),
            "the picture " + (folder / "text.jpg").string() +
                ": unsupported image: this is text, which begins 'no picture'; send the bytes of a "
                "picture's file. Supported: JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF");
  EXPECT_NE(ErrorOf(folder / "none.jpg").find("none.jpg: there is no such file"),
            std::string::npos);
  EXPECT_NE(ErrorOf(folder.root()).find("there is no such file"), std::string::npos);
  folder.Write("empty.png", "");
  EXPECT_NE(ErrorOf(folder / "empty.png"), "");
}

TEST(PictureFileTest, SizesAreCheckedBeforeAnythingIsAllocated) {
  using namespace fovea::testing;
  const TempRepository folder;
  folder.Write("huge.png", TextOf(PngSignature() + PngHeader(30000, 30000, 8, 2) +
                                  PngChunk("IDAT", Deflate(File(100))) + PngChunk("IEND", {})));
  EXPECT_NE(ErrorOf(folder / "huge.png").find("30000 x 30000 pixels"), std::string::npos);
  folder.Write("wide.png", TextOf(PngSignature() + PngHeader(1 << 20, 1, 8, 0) +
                                  PngChunk("IDAT", Deflate(File(100))) + PngChunk("IEND", {})));
  EXPECT_NE(ErrorOf(folder / "wide.png"), "");
}

// Every beginning of a picture is an error or, where nothing but its end is missing, the picture.
TEST(PictureFileTest, TruncatedAndDamagedPicturesEndInWords) {
  const TempRepository folder;
  std::mt19937 random(1);
  for (const char* name : {"orientation_6.jpg", "rgba_8.png", "gray_16.png", "lossy_alpha.webp"}) {
    const std::string whole = TextOf(fovea::testing::ReadImage(name));
    int errors = 0;
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 60) {
      folder.Write("cut", whole.substr(0, size));
      errors += !ErrorOf(folder / "cut").empty();
      std::string damaged = whole;
      for (int i = 0; i < 4; ++i) damaged[random() % damaged.size()] ^= 1 << random() % 8;
      folder.Write("damaged", damaged);
      ErrorOf(folder / "damaged");
    }
    EXPECT_GT(errors, 50) << name;
  }
}

}  // namespace
}  // namespace fovea::models::training
