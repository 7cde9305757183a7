#include "client/cpp/cli/drawn_pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "server/imaging/encode_png.h"
#include "tests/client/cli/read_png.h"
#include "tests/client/cli/run_fovea.h"

namespace fovea::client {
namespace {

using ::testing::HasSubstr;

using DrawnPicturesTest = FoveaTest;

RgbImage Grey(uint8_t level) {
  RgbImage image = RgbImage::Allocate(1, 1);
  image.pixels[0] = image.pixels[1] = image.pixels[2] = level;
  return image;
}

TEST_F(DrawnPicturesTest, AnExceptionIsOnePicturesFailure) {
  DrawnPictures pictures(folder_ / "drawn");
  const std::string image = *EncodePng(Grey(7));
  const absl::Status thrown =
      pictures.Draw("a.jpg", image, [](const RgbImage&) -> absl::StatusOr<RgbImage> {
        throw std::runtime_error("a matrix of no size");
      });
  EXPECT_EQ(thrown.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(thrown.message()), HasSubstr("not drawn: a matrix of no size"));
  const absl::Status too_large = pictures.Draw(
      "b.jpg", image, [](const RgbImage&) -> absl::StatusOr<RgbImage> { throw std::bad_alloc(); });
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "drawn" / "a.png"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "drawn" / "b.png"));
  const absl::Status drawn = pictures.Draw("c.jpg", image, [](const RgbImage&) { return Grey(9); });
  ASSERT_TRUE(drawn.ok()) << drawn;
  EXPECT_EQ(ReadPng(folder_ / "drawn" / "c.png").pixels[0], 9);
}

}  // namespace
}  // namespace fovea::client
