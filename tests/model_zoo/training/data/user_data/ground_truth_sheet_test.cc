#include "model_zoo/training/data/user_data/ground_truth_sheet.h"

#include <gtest/gtest.h>

#include "model_zoo/training/data/generated/scene.h"

namespace fovea::models::training {
namespace {

TEST(GroundTruthSheetTest, ShowsEachPictureAsItIsAndBelowItItsGroundTruth) {
  const Scenes scenes({.sizes = {{64, 64}}, .count = 3});
  const cv::Mat sheet = GroundTruthSheet(scenes, 0, /*rows=*/2, /*columns=*/2, /*side=*/64);
  ASSERT_EQ(sheet.size(), cv::Size(2 * 66, 2 * 132));
  for (int i = 0; i < 4; ++i) {
    const cv::Rect above((i % 2) * 66, (i / 2) * 132, 64, 64);
    const cv::Mat plain = sheet(above), drawn = sheet(above + cv::Point(0, 64));
    if (i == 3) {  // there are three
      EXPECT_EQ(cv::norm(plain, cv::NORM_INF), 0);
      continue;
    }
    const Sample sample = scenes.Get(static_cast<uint64_t>(i));
    EXPECT_EQ(cv::norm(plain, sample.rgb, cv::NORM_INF), 0);
    // Every object's pixels are tinted: 0.45 of what they were and 0.55 of another colour.
    for (const Object& object : sample.objects) {
      const cv::Mat whole = WholeMask(object, sample.rgb.size());
      cv::Mat difference;
      cv::absdiff(plain, drawn, difference);
      EXPECT_GT(cv::norm(cv::mean(difference, whole)), 1);
    }
  }
  EXPECT_THROW(GroundTruthSheet(scenes, 0, 0, 2, 64), std::invalid_argument);
  EXPECT_THROW(GroundTruthSheet(scenes, 0, 2000, 2, 64), std::invalid_argument);
}

}  // namespace
}  // namespace fovea::models::training
