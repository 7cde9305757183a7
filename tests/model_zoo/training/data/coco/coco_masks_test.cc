#include "model_zoo/training/data/coco/coco_masks.h"

#include <gtest/gtest.h>

#include <opencv2/imgproc.hpp>
#include <random>

#include "base/run_lengths.h"

namespace fovea::models::training {
namespace {

cv::Mat Filled(const std::vector<float>& polygon, cv::Size size) {
  cv::Mat mask = cv::Mat::zeros(size, CV_8U);
  FillPolygon(polygon, {0, 0}, mask);
  return mask;
}

TEST(FillPolygonTest, TakesThePixelsWhoseMiddleIsInside) {
  // From 1 to 4 across and from 1.5 to 3.4 down: the middles at 1.5 to 3.5, and at 1.5 (which lies
  // on the edge, and counts) and 2.5.
  const cv::Mat mask = Filled({1, 1.5f, 4, 1.5f, 4, 3.4f, 1, 3.4f}, {6, 6});
  EXPECT_EQ(cv::countNonZero(mask), 6);
  EXPECT_EQ(cv::countNonZero(mask(cv::Rect(1, 1, 3, 2))), 6);
}

TEST(FillPolygonTest, PolygonsSideBySideShareNoPixelAndLeaveNone) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> place(-5, 25);
  for (int i = 0; i < 100; ++i) {
    // A square around everything, cut along a line from its top to its bottom.
    const float top = place(random), bottom = place(random);
    const cv::Mat left = Filled({-9, -9, top, -9, bottom, 30, -9, 30}, {20, 20});
    const cv::Mat right = Filled({top, -9, 30, -9, 30, 30, bottom, 30}, {20, 20});
    EXPECT_EQ(cv::countNonZero(left & right), 0);
    EXPECT_EQ(cv::countNonZero(left | right), 400);
  }
}

TEST(FillPolygonTest, APartOfThePictureIsFilledAsTheWhole) {
  const std::vector<float> polygon = {1.3f, 0.2f, 18.9f, 7, 9.5f, 19, 3, 12.2f};
  const cv::Rect part(3, 5, 9, 11);
  cv::Mat filled = cv::Mat::zeros(part.size(), CV_8U);
  FillPolygon(polygon, part.tl(), filled);
  EXPECT_EQ(cv::norm(filled, Filled(polygon, {20, 20})(part), cv::NORM_INF), 0);
}

TEST(FillPolygonTest, AHoleIsWhatTheOutlineGoesAroundTwice) {
  // A bow tie: two triangles that meet in the middle.
  const cv::Mat mask = Filled({0, 0, 10, 10, 10, 0, 0, 10}, {10, 10});
  EXPECT_EQ(mask.at<uint8_t>(5, 1), 255);
  EXPECT_EQ(mask.at<uint8_t>(5, 8), 255);
  EXPECT_EQ(mask.at<uint8_t>(1, 5), 0);
}

TEST(RunLengthsTest, AMaskComesBackAndEachPartOfItToo) {
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    cv::Mat mask(1 + random() % 40, 1 + random() % 40, CV_8U);
    const unsigned dense = random() % 1000;  // few pixels, too: what is not set has to be seen
    for (int y = 0; y < mask.rows; ++y) {
      for (int x = 0; x < mask.cols; ++x) {
        mask.at<uint8_t>(y, x) = random() % 1000 < dense * dense / 1000 ? 255 : 0;
      }
    }
    const auto lengths = ReadRunLengths(RunLengthsOf(mask), static_cast<int64_t>(mask.total()));
    ASSERT_TRUE(lengths.has_value());
    const cv::Rect whole({0, 0}, mask.size()), area = cv::boundingRect(mask);
    EXPECT_EQ(AreaOf(*lengths, mask.size()), area);
    const cv::Point corner(random() % mask.cols, random() % mask.rows);
    const cv::Rect corner_part(corner, mask.size());
    for (const cv::Rect& part : {whole, area, corner_part & whole}) {
      if (part.empty()) continue;
      EXPECT_EQ(cv::norm(MaskOf(*lengths, mask.size(), part), mask(part), cv::NORM_INF), 0);
    }
  }
}

TEST(RunLengthsTest, GoDownTheColumns) {
  const cv::Mat mask = MaskOf(std::vector<int64_t>{1, 2, 3}, {2, 3}, {0, 0, 2, 3});
  EXPECT_EQ(mask.at<uint8_t>(1, 0), 255);
  EXPECT_EQ(mask.at<uint8_t>(2, 0), 255);
  EXPECT_EQ(cv::countNonZero(mask), 2);
}

}  // namespace
}  // namespace fovea::models::training
