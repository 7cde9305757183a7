#include "server/core/image_transform.h"

#include <gtest/gtest.h>

#include "server/core/image_size.h"

namespace fovea {
namespace {

TEST(PaddingTest, IsTheShareOfTheInputsThatShowsNothing) {
  EXPECT_EQ(PaddingOf(std::vector<ImageSize>{{20, 30}}, 20, 30), 0);
  EXPECT_DOUBLE_EQ(PaddingOf(std::vector<ImageSize>{{20, 30}, {10, 15}}, 20, 30), 0.375);
  // As much of the input as is shown, wherever in the picture it lies.
  ImageTransform half = ImageTransform::Identity(20, 15);
  half.top = 7;
  EXPECT_DOUBLE_EQ(PaddingOf(std::vector<ImageTransform>{half}, 20, 30), 0.5);
}

}  // namespace
}  // namespace fovea
