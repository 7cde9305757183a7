#include "model_zoo/training/data/loading/augmentation.h"

#include <gtest/gtest.h>

#include <opencv2/imgproc.hpp>
#include <utility>

#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/data/loading/shuffle.h"

namespace fovea::models::training {
namespace {

const AugmentationOptions kAsItIs{.flip = 0, .min_scale = 1, .max_scale = 1, .colour = 0};

Sample Scene(uint64_t index, cv::Size size = {128, 96}) {
  return DrawScene(1, Stream::kTraining, index, size);
}

bool SameBytes(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && cv::norm(a, b, cv::NORM_INF) == 0;
}

// The class map of a sample's objects, as scenes have it.
cv::Mat Painted(const Sample& sample, cv::Size content) {
  cv::Mat map(sample.rgb.size(), CV_8U, cv::Scalar(255));
  map(cv::Rect({0, 0}, content)).setTo(0);
  for (const Object& object : sample.objects) {
    map.setTo(static_cast<double>(object.class_index + 1), WholeMask(object, sample.rgb.size()));
  }
  return map;
}

TEST(PlacedTest, APictureOfTheImagesSizeStaysAsItIs) {
  const Sample sample = Scene(0);
  for (const Framing framing : {Framing::kWhole, Framing::kFilled}) {
    const PlacedSample placed = Placed(sample, {128, 96}, framing);
    EXPECT_EQ(placed.content, cv::Size(128, 96));
    EXPECT_TRUE(SameBytes(placed.sample.rgb, sample.rgb));
    EXPECT_TRUE(SameBytes(placed.sample.class_map, sample.class_map));
    ASSERT_EQ(placed.sample.objects.size(), sample.objects.size());
    for (size_t i = 0; i < sample.objects.size(); ++i) {
      EXPECT_EQ(placed.sample.objects[i].box, sample.objects[i].box);
      EXPECT_EQ(placed.sample.objects[i].mask_area, sample.objects[i].mask_area);
      EXPECT_TRUE(SameBytes(placed.sample.objects[i].mask(), sample.objects[i].mask()));
    }
  }
}

TEST(PlacedTest, TheWholePictureLiesInTheUpperLeftCorner) {
  const PlacedSample placed = Placed(Scene(0), {100, 100}, Framing::kWhole);
  EXPECT_EQ(placed.content, cv::Size(100, 75));
  EXPECT_EQ(cv::countNonZero(placed.sample.rgb.rowRange(75, 100).reshape(1)), 0);
  EXPECT_EQ(cv::countNonZero(placed.sample.class_map.rowRange(75, 100) != 255), 0);
}

TEST(PlacedTest, AFilledImageShowsTheMiddle) {
  Sample sample{.rgb = cv::Mat::zeros(10, 30, CV_8UC3)};
  sample.rgb.colRange(10, 20).setTo(cv::Scalar(1, 2, 3));
  const PlacedSample placed = Placed(sample, {10, 10}, Framing::kFilled);
  EXPECT_EQ(placed.content, cv::Size(10, 10));
  EXPECT_EQ(cv::mean(placed.sample.rgb), cv::Scalar(1, 2, 3));
}

TEST(PlacedTest, BoxesScaleExactly) {
  Sample sample{.rgb = cv::Mat::zeros(40, 80, CV_8UC3)};
  sample.objects.push_back({.box = {10.5f, 4, 20, 8}, .class_index = 3});
  const PlacedSample placed = Placed(sample, {40, 40}, Framing::kWhole);
  ASSERT_EQ(placed.sample.objects.size(), 1u);
  EXPECT_EQ(placed.sample.objects[0].box, cv::Rect2f(5.25f, 2, 10, 4));
  EXPECT_EQ(placed.sample.objects[0].class_index, 3);
}

TEST(PlacedTest, WhatBecomesThinnerThanAPixelIsDropped) {
  Sample sample{.rgb = cv::Mat::zeros(100, 100, CV_8UC3)};
  sample.objects.push_back({.box = {10, 10, 9, 9}});
  sample.objects.push_back({.box = {10, 10, 11, 11}});
  EXPECT_EQ(Placed(sample, {10, 10}, Framing::kWhole).sample.objects.size(), 1u);
}

TEST(AugmentedTest, IsAFunctionOfWhatTheRandomNumbersAre) {
  const Sample sample = Scene(2);
  for (uint32_t i = 0; i < 10; ++i) {
    Random first(1, 64, i), second(1, 64, i);
    const PlacedSample a = Augmented(sample, {96, 96}, Framing::kWhole, {}, first);
    const PlacedSample b = Augmented(sample, {96, 96}, Framing::kWhole, {}, second);
    EXPECT_TRUE(SameBytes(a.sample.rgb, b.sample.rgb));
    EXPECT_TRUE(SameBytes(a.sample.class_map, b.sample.class_map));
  }
}

// However a picture is flipped, scaled and cut: what its masks show is what its class map shows,
// and boxes hold their masks.
TEST(AugmentedTest, BoxesMasksAndMapsFollowTogether) {
  const cv::Size image(112, 104);
  int objects = 0, cut = 0;
  for (uint64_t index = 0; index < 200; ++index) {
    const Sample sample = Scene(index);
    if (cv::countNonZero(sample.class_map == 255) > 0) continue;
    AugmentationOptions options;
    options.min_left = 0;  // so that no object is dropped that the map keeps
    const bool enlarged = index % 2 == 1;
    if (enlarged) options.min_scale = options.max_scale = 1.5f;
    Random random(7, 64, index);
    const PlacedSample placed = Augmented(sample, image, Framing::kWhole, options, random);
    const cv::Mat map = Painted(placed.sample, placed.content);
    // What is left of an object at a border may be thinner than a pixel, and dropped.
    const int lost = cv::countNonZero(map != placed.sample.class_map);
    EXPECT_LE(lost, 2 * (image.width + image.height)) << "scene " << index;
    if (placed.sample.objects.size() == sample.objects.size()) {
      EXPECT_EQ(lost, 0) << "scene " << index;
    }
    for (const Object& object : placed.sample.objects) {
      ++objects;
      const cv::Rect area = object.mask_area;
      const cv::Rect2f& box = object.box;
      EXPECT_EQ(cv::boundingRect(WholeMask(object, image)), area);
      EXPECT_EQ(cv::Rect2f(0, 0, placed.content.width, placed.content.height) & box, box);
      // A mask's pixel is there where its middle lies in the object.
      EXPECT_LE(box.x, area.x + 0.5f);
      EXPECT_LE(box.y, area.y + 0.5f);
      EXPECT_GE(box.x + box.width, area.br().x - 0.5f);
      EXPECT_GE(box.y + box.height, area.br().y - 0.5f);
      cut += area.x == 0 || area.y == 0;
      if (!enlarged) continue;  // a tip of one pixel may lie between the middles
      EXPECT_NEAR(box.x, area.x, 0.5);
      EXPECT_NEAR(box.y, area.y, 0.5);
      EXPECT_NEAR(box.x + box.width, area.br().x, 0.5);
      EXPECT_NEAR(box.y + box.height, area.br().y, 0.5);
    }
  }
  EXPECT_GT(objects, 400);
  EXPECT_GT(cut, 20);
}

TEST(AugmentedTest, LeavesTheSampleAsItIs) {
  const Sample sample = Scene(4), same = Scene(4);
  for (uint64_t i = 0; i < 20; ++i) {
    Random random(1, 64, i);
    Augmented(sample, {128, 96}, Framing::kWhole, {}, random);
    Placed(sample, {64, 64}, Framing::kFilled);
  }
  EXPECT_TRUE(SameBytes(sample.rgb, same.rgb));
  EXPECT_TRUE(SameBytes(sample.class_map, same.class_map));
  for (size_t i = 0; i < sample.objects.size(); ++i) {
    EXPECT_EQ(sample.objects[i].box, same.objects[i].box);
    EXPECT_TRUE(SameBytes(sample.objects[i].mask(), same.objects[i].mask()));
  }
}

TEST(AugmentedTest, AFlipMirrorsEverything) {
  AugmentationOptions options = kAsItIs;
  options.flip = 1;
  const Sample sample = Scene(4);
  Random random(1, 64, 0);
  const PlacedSample placed = Augmented(sample, {128, 96}, Framing::kWhole, options, random);
  cv::Mat mirrored;
  cv::flip(sample.rgb, mirrored, 1);
  EXPECT_TRUE(SameBytes(placed.sample.rgb, mirrored));
  cv::flip(sample.class_map, mirrored, 1);
  EXPECT_TRUE(SameBytes(placed.sample.class_map, mirrored));
  ASSERT_EQ(placed.sample.objects.size(), sample.objects.size());
  for (size_t i = 0; i < sample.objects.size(); ++i) {
    const Object &before = sample.objects[i], &after = placed.sample.objects[i];
    EXPECT_EQ(after.box.x, 128 - before.box.x - before.box.width);
    cv::flip(before.mask(), mirrored, 1);
    EXPECT_TRUE(SameBytes(after.mask(), mirrored));
  }
}

TEST(AugmentedTest, AnObjectThatIsCutAwayIsDropped) {
  Sample sample{.rgb = cv::Mat::zeros(100, 100, CV_8UC3)};
  for (int x = 0; x < 100; x += 10) {
    sample.objects.push_back({.box = cv::Rect2f(x, 0, 10, 100), .class_index = x});
  }
  AugmentationOptions options = kAsItIs;
  options.min_scale = options.max_scale = 2;  // of 100 columns 50 remain
  options.min_left = 0.2f;                    // of 200 rows of the scaled picture 100 are half
  for (uint64_t i = 0; i < 20; ++i) {
    Random random(1, 64, i);
    const PlacedSample placed = Augmented(sample, {100, 100}, Framing::kWhole, options, random);
    const size_t left = placed.sample.objects.size();
    EXPECT_GE(left, 4u);
    EXPECT_LE(left, 6u);
    for (const Object& object : placed.sample.objects) {
      EXPECT_EQ(object.box.height, 100);
      EXPECT_GE(object.box.width, 0.2f * 20 * 2 - 1e-3f);
    }
  }
}

TEST(AugmentedTest, CrowdsStayHoweverLittleIsLeft) {
  Sample sample{.rgb = cv::Mat::zeros(100, 100, CV_8UC3)};
  sample.objects.push_back({.box = {0, 0, 100, 100}, .crowd = true});
  sample.objects.push_back({.box = {0, 0, 100, 100}});
  AugmentationOptions options = kAsItIs;
  options.min_scale = options.max_scale = 4;  // a sixteenth of each is left
  Random random(1, 64, 0);
  const PlacedSample placed = Augmented(sample, {100, 100}, Framing::kWhole, options, random);
  ASSERT_EQ(placed.sample.objects.size(), 1u);
  EXPECT_TRUE(placed.sample.objects[0].crowd);
}

TEST(AugmentedTest, ColoursChangeAndGroundTruthDoesNot) {
  AugmentationOptions options = kAsItIs;
  options.colour = 0.3f;
  const Sample sample = Scene(4);
  Random random(1, 64, 3);
  const PlacedSample placed = Augmented(sample, {128, 96}, Framing::kWhole, options, random);
  EXPECT_FALSE(SameBytes(placed.sample.rgb, sample.rgb));
  EXPECT_TRUE(SameBytes(placed.sample.class_map, sample.class_map));
}

TEST(ShuffledTest, IsAnotherPermutationForEverySeedAndRound) {
  for (const uint64_t count : {1, 2, 3, 10, 64, 1000}) {
    std::vector<uint64_t> seen;
    int moved = 0;
    for (uint64_t place = 0; place < count; ++place) {
      seen.push_back(Shuffled(place, count, 1, 0));
      moved += seen.back() != Shuffled(place, count, 1, 1);
      moved += seen.back() != Shuffled(place, count, 2, 0);
    }
    std::sort(seen.begin(), seen.end());
    for (uint64_t i = 0; i < count; ++i) EXPECT_EQ(seen[i], i) << count;
    if (count >= 64) {
      EXPECT_GT(moved, static_cast<int>(count)) << count;
    }
  }
}

}  // namespace
}  // namespace fovea::models::training
