#include "model_zoo/training/data/generated/scene.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <opencv2/core/version.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <thread>
#include <vector>

namespace fovea::models::training {
namespace {

const cv::Size kSize(128, 128);

bool SameBytes(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && a.type() == b.type() && cv::norm(a, b, cv::NORM_INF) == 0;
}

bool SameSample(const Sample& a, const Sample& b) {
  return SameBytes(a.rgb, b.rgb) && SameBytes(a.class_map, b.class_map) &&
         std::equal(a.objects.begin(), a.objects.end(), b.objects.begin(), b.objects.end(),
                    [](const Object& x, const Object& y) {
                      return x.box == y.box && x.class_index == y.class_index &&
                             x.mask_area == y.mask_area && SameBytes(x.mask(), y.mask());
                    });
}

// FNV-1a.
uint64_t Checksum(const cv::Mat& image, uint64_t hash = 0xcbf29ce484222325) {
  for (size_t i = 0; i < image.total() * image.elemSize(); ++i) {
    hash = (hash ^ image.data[i]) * 0x100000001b3;
  }
  return hash;
}

TEST(SceneTest, TheBytesAreTheSameOnEveryMachine) {
  if (std::string(CV_VERSION) != "4.6.0") {
    GTEST_SKIP() << "recorded with OpenCV 4.6.0, whose polygons are those of Debian 12";
  }
  uint64_t all = 0;
  for (uint64_t index = 0; index < 20; ++index) {
    const Sample sample = DrawScene(1, Stream::kValidation, index, kSize);
    all = all * 31 + Checksum(sample.class_map, Checksum(sample.rgb));
  }
  EXPECT_EQ(all, 0x0e487ab53db961db) << std::hex << all;
}

TEST(SceneTest, BoxesAreTightAroundMasks) {
  for (uint64_t index = 0; index < 100; ++index) {
    const Sample sample = DrawScene(1, Stream::kTraining, index, kSize);
    for (const Object& object : sample.objects) {
      EXPECT_EQ(object.box, cv::Rect2f(object.mask_area));
      EXPECT_EQ(object.mask().size(), object.mask_area.size());
      const cv::Mat whole = WholeMask(object, kSize);
      EXPECT_EQ(cv::boundingRect(whole), object.mask_area) << "scene " << index;
      EXPECT_EQ(cv::countNonZero(whole), cv::countNonZero(whole == 255));
      EXPECT_GE(cv::countNonZero(whole), kMinVisiblePixels);
    }
  }
}

TEST(SceneTest, TheClassMapIsTheMasksOnTheBackground) {
  for (uint64_t index = 0; index < 100; ++index) {
    const Sample sample = DrawScene(1, Stream::kTraining, index, kSize);
    cv::Mat map = cv::Mat::zeros(kSize, CV_8U), times = cv::Mat::zeros(kSize, CV_8U);
    for (const Object& object : sample.objects) {
      const cv::Mat whole = WholeMask(object, kSize);
      map.setTo(static_cast<double>(object.class_index + 1), whole);
      times += whole / 255;
    }
    // A pixel shows one object at most.
    EXPECT_LE(cv::norm(times, cv::NORM_INF), 1) << "scene " << index;
    map.setTo(255, sample.class_map == 255);  // of shapes that are next to hidden
    EXPECT_TRUE(SameBytes(map, sample.class_map)) << "scene " << index;
  }
}

// The share of an object's convex hull that it does not fill.
double Dent(const Object& object) {
  std::vector<cv::Point> points, hull;
  cv::findNonZero(object.mask(), points);
  cv::convexHull(points, hull);
  cv::Mat filled = cv::Mat::zeros(object.mask().size(), CV_8U);
  cv::fillConvexPoly(filled, hull, cv::Scalar(255));
  return 1 - static_cast<double>(points.size()) / cv::countNonZero(filled);
}

// Discs are convex: nothing but another one in front makes a dent.
TEST(SceneTest, WhatIsInFrontHidesWhatIsBehind) {
  const SceneOptions discs{.shapes = {Shape::kCircle},
                           .min_objects = 2,
                           .max_objects = 2,
                           .min_radius = 0.35f,
                           .max_radius = 0.35f};
  int dented = 0;
  for (uint64_t index = 0; index < 60; ++index) {
    const Sample sample = DrawScene(1, Stream::kTraining, index, {200, 200}, discs);
    ASSERT_FALSE(sample.objects.empty());
    // Pixels along the outline only: 2 pi r of pi r r, r at least 0.82 * 0.35 * 200.
    EXPECT_LT(Dent(sample.objects.back()), 2 / 57.0) << "scene " << index;
    dented += sample.objects.size() == 2 && Dent(sample.objects.front()) > 2 / 57.0;
  }
  EXPECT_GT(dented, 10);
}

TEST(SceneTest, OrderAndThreadsDoNotMatter) {
  std::vector<Sample> alone(20), together(20);
  for (int i = 0; i < 20; ++i) alone[i] = DrawScene(5, Stream::kTraining, i, kSize);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&together, thread] {
      for (int i = 19 - thread; i >= 0; i -= 4) {
        together[i] = DrawScene(5, Stream::kTraining, i, kSize);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(SameSample(alone[i], together[i])) << i;
}

TEST(SceneTest, StreamsAndSeedsAreOtherScenes) {
  const Sample sample = DrawScene(1, Stream::kTraining, 0, kSize);
  EXPECT_FALSE(SameBytes(sample.rgb, DrawScene(1, Stream::kValidation, 0, kSize).rgb));
  EXPECT_FALSE(SameBytes(sample.rgb, DrawScene(2, Stream::kTraining, 0, kSize).rgb));
}

TEST(SceneTest, TheSceneDoesNotDependOnTheResolution) {
  for (uint64_t index = 0; index < 30; ++index) {
    const Sample small = DrawScene(3, Stream::kTraining, index, {160, 120});
    const Sample large = DrawScene(3, Stream::kTraining, index, {640, 480});
    ASSERT_EQ(small.objects.size(), large.objects.size()) << "scene " << index;
    for (size_t i = 0; i < small.objects.size(); ++i) {
      const Object &a = small.objects[i], &b = large.objects[i];
      EXPECT_EQ(a.class_index, b.class_index);
      // Pixels differ along the outline only.
      cv::Mat shrunk;
      cv::resize(WholeMask(b, {640, 480}), shrunk, {160, 120}, 0, 0, cv::INTER_AREA);
      const cv::Mat differing = WholeMask(a, {160, 120}) != (shrunk >= 128);
      EXPECT_LE(cv::countNonZero(differing), a.box.width + a.box.height)
          << "scene " << index << ", object " << i;
    }
  }
}

TEST(SceneTest, ClassesAndSizesAreSpread) {
  std::vector<int> classes(6);
  int small = 0, all = 0, covering = 0;
  for (uint64_t index = 0; index < 300; ++index) {
    const Sample sample = DrawScene(1, Stream::kTraining, index, kSize);
    for (const Object& object : sample.objects) {
      ++classes.at(object.class_index);
      ++all;
      small += object.box.area() < 32 * 32;
    }
    for (size_t i = 0; i + 1 < sample.objects.size(); ++i) {
      covering += !(sample.objects[i].mask_area & sample.objects[i + 1].mask_area).empty();
    }
  }
  for (int count : classes) EXPECT_NEAR(count, all / 6.0, 5 * std::sqrt(all / 6.0));
  EXPECT_GT(small, all / 4);
  EXPECT_LT(small, 3 * all / 4);
  EXPECT_GT(covering, 60);
}

TEST(SceneTest, EveryShapeStaysInSight) {
  const SceneOptions crowded{.min_objects = 30, .max_objects = 30};
  for (uint64_t index = 0; index < 20; ++index) {
    const Sample sample = DrawScene(1, Stream::kTraining, index, {512, 512}, crowded);
    EXPECT_GT(sample.objects.size(), 5u);
    // The smallest disc-like shape has a radius of 0.07 * 512 pixels; the thinnest shape, a ring or
    // a star, fills a quarter of its disc, of which 40% remain, less the squeezing by 0.82 and what
    // lies outside of the picture, at most half.
    for (const Object& object : sample.objects) {
      EXPECT_GT(cv::countNonZero(object.mask()), CV_PI * 35 * 35 * 0.25 * 0.4 * 0.82 * 0.5);
    }
    EXPECT_EQ(cv::countNonZero(sample.class_map == 255), 0);
  }
}

TEST(SceneTest, InTinyPicturesWhatCannotBeSeenIsIgnored) {
  int ignored = 0;
  for (uint64_t index = 0; index < 50; ++index) {
    const Sample sample = DrawScene(1, Stream::kTraining, index, {24, 24});
    for (const Object& object : sample.objects) {
      EXPECT_GE(cv::countNonZero(object.mask()), kMinVisiblePixels);
    }
    ignored += cv::countNonZero(sample.class_map == 255) > 0;
  }
  EXPECT_GT(ignored, 10);
}

TEST(SceneTest, AnyShapeOfPicture) {
  for (cv::Size size : {cv::Size(1, 1), cv::Size(3, 150), cv::Size(640, 20), cv::Size(97, 131)}) {
    const Sample sample = DrawScene(1, Stream::kTraining, 7, size);
    EXPECT_EQ(sample.rgb.size(), size);
    EXPECT_EQ(sample.class_map.size(), size);
  }
}

TEST(SceneTest, OptionsThatMakeNoSceneAreRefused) {
  const auto draw = [](cv::Size size, const SceneOptions& options) {
    return DrawScene(1, Stream::kTraining, 0, size, options);
  };
  EXPECT_THROW(draw({0, 5}, {}), std::invalid_argument);
  EXPECT_THROW(draw({10, 1000}, {}), std::invalid_argument);
  EXPECT_THROW(draw(kSize, {.shapes = {}}), std::invalid_argument);
  EXPECT_THROW(draw(kSize, {.min_objects = 3, .max_objects = 2}), std::invalid_argument);
  EXPECT_THROW(draw(kSize, {.max_objects = 1000}), std::invalid_argument);
  EXPECT_THROW(draw(kSize, {.min_radius = 0}), std::invalid_argument);
  EXPECT_THROW(draw(kSize, {.max_radius = 0.6f}), std::invalid_argument);
}

TEST(ScenesTest, NameTheirClassesAndTheBackground) {
  const Scenes scenes({.scene = {.shapes = {Shape::kHeart, Shape::kBolt}}});
  EXPECT_EQ(scenes.labels(), (std::vector<std::string>{"heart", "bolt"}));
  EXPECT_EQ(scenes.map_labels(), (std::vector<std::string>{"background", "heart", "bolt"}));
  EXPECT_EQ(scenes.size(), SampleSource::kEndless);
  EXPECT_TRUE(SameSample(scenes.Get(3), DrawScene(1, Stream::kTraining, 3, kSize,
                                                  {.shapes = {Shape::kHeart, Shape::kBolt}})));
}

TEST(ScenesTest, TakeTheirSizesInTurn) {
  EXPECT_EQ(SceneSizes(128), (std::vector<cv::Size>{{128, 128}, {128, 96}, {96, 128}}));
  EXPECT_EQ(SceneSizes(1), (std::vector<cv::Size>{{1, 1}, {1, 1}, {1, 1}}));
  const Scenes scenes({.sizes = {{60, 60}, {60, 45}}});
  for (const uint64_t index : {0, 1, 2, 3}) {
    const cv::Size size{60, index % 2 == 0 ? 60 : 45};
    EXPECT_TRUE(SameSample(scenes.Get(index), DrawScene(1, Stream::kTraining, index, size)));
  }
  EXPECT_THROW(Scenes({.sizes = {}}), std::invalid_argument);
  EXPECT_THROW(Scenes({.sizes = {{60, 60}, {0, 60}}}), std::invalid_argument);
}

}  // namespace
}  // namespace fovea::models::training
