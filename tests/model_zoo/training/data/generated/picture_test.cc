#include "model_zoo/training/data/generated/picture.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <opencv2/core/version.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <thread>
#include <vector>

#include "model_zoo/training/data/generated/canvas.h"
#include "model_zoo/training/data/loading/shape_loader.h"

namespace fovea::models::training {
namespace {

const cv::Size kSize(64, 64);

bool SameBytes(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && cv::norm(a, b, cv::NORM_INF) == 0;
}

// FNV-1a.
uint64_t Checksum(const cv::Mat& image) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < image.total() * image.elemSize(); ++i) {
    hash = (hash ^ image.data[i]) * 0x100000001b3;
  }
  return hash;
}

TEST(PictureTest, TheBytesAreTheSameOnEveryMachine) {
  if (std::string(CV_VERSION) != "4.6.0") {
    GTEST_SKIP() << "recorded with OpenCV 4.6.0, whose polygons are those of Debian 12";
  }
  uint64_t all = 0;
  for (uint64_t index = 0; index < 40; ++index) {
    all = all * 31 + Checksum(DrawPicture(1, Stream::kValidation, index, kSize).rgb);
  }
  all = all * 31 + Checksum(DrawPicture(1, Stream::kExamples, 3, {160, 120}).rgb);
  EXPECT_EQ(all, 0xba9781b59deaf2cd) << std::hex << all;
}

TEST(PictureTest, OrderAndThreadsDoNotMatter) {
  std::vector<cv::Mat> alone(20), together(20);
  for (int i = 0; i < 20; ++i) alone[i] = DrawPicture(5, Stream::kTraining, i, kSize).rgb;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&together, thread] {
      for (int i = 19 - thread; i >= 0; i -= 4) {
        together[i] = DrawPicture(5, Stream::kTraining, i, kSize).rgb;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(SameBytes(alone[i], together[i])) << i;
}

TEST(PictureTest, TrainingAndValidationShareNoPicture) {
  std::vector<uint64_t> sums;
  for (Stream stream : {Stream::kTraining, Stream::kValidation, Stream::kTest}) {
    for (uint64_t index = 0; index < 200; ++index) {
      sums.push_back(Checksum(DrawPicture(1, stream, index, kSize).rgb));
    }
  }
  std::sort(sums.begin(), sums.end());
  EXPECT_EQ(std::adjacent_find(sums.begin(), sums.end()), sums.end());
}

TEST(PictureTest, ASeedIsAnotherDataSet) {
  EXPECT_FALSE(SameBytes(DrawPicture(1, Stream::kTraining, 0, kSize).rgb,
                         DrawPicture(2, Stream::kTraining, 0, kSize).rgb));
}

TEST(PictureTest, ClassesAreBalancedInEveryRound) {
  const ShapeBatch batch = DrawShapeBatch(1, Stream::kValidation, 30, 3 * kNumShapes, 32);
  EXPECT_TRUE(at::bincount(batch.labels).eq(3).all().item<bool>());
  EXPECT_EQ(batch.pixels.sizes(), at::IntArrayRef({30, 32, 32, 3}));
}

TEST(PictureTest, TheShapeIsLargeInThePictureAndStandsOut) {
  int faint = 0;
  for (uint64_t index = 0; index < 300; ++index) {
    const Picture picture = DrawPicture(1, Stream::kValidation, index, kSize);
    const double share = cv::mean(picture.extent)[0] / 255;
    EXPECT_GT(share, 0.04) << "picture " << index;
    EXPECT_LT(share, 0.66) << "picture " << index;
    const cv::Scalar inside = cv::mean(picture.rgb, picture.extent > 200);
    const cv::Scalar outside = cv::mean(picture.rgb, picture.extent == 0);
    faint += cv::norm(inside - outside) < 12;
  }
  // Two textures may have one mean colour; as a rule they do not.
  EXPECT_LT(faint, 15);
}

TEST(PictureTest, NeitherDarkNorBrightPicturesPrevail) {
  const ShapeBatch batch = DrawShapeBatch(1, Stream::kTraining, 0, 500, 64);
  const at::Tensor means = batch.pixels.to(at::kFloat).mean({1, 2, 3});
  EXPECT_NEAR(means.mean().item<double>(), 115, 25);
  EXPECT_GT(means.std().item<double>(), 25);
}

TEST(PictureTest, TheSceneDoesNotDependOnTheResolution) {
  double difference = 0;
  for (uint64_t index = 0; index < 20; ++index) {
    const cv::Mat small = DrawPicture(3, Stream::kExamples, index, kSize).extent;
    cv::Mat shrunk;
    cv::resize(DrawPicture(3, Stream::kExamples, index, kSize * 4).extent, shrunk, kSize, 0, 0,
               cv::INTER_AREA);
    difference = std::max(difference, cv::norm(small, shrunk, cv::NORM_L1) / kSize.area());
  }
  EXPECT_LT(difference, 3.0);  // of 255: the pixels of the outline
}

TEST(CanvasTest, CoverageIsTheShareOfThePixel) {
  const Canvas canvas({10, 10});
  // From 0.2 to 0.55 across and from 0.3 to 0.5 down: columns 2 to 5.5, rows 3 and 4.
  const Coverage coverage =
      canvas.Cover({{{0.2f, 0.3f}, {0.55f, 0.3f}, {0.55f, 0.5f}, {0.2f, 0.5f}}});
  cv::Mat all = cv::Mat::zeros(10, 10, CV_8U);
  coverage.alpha.copyTo(all(coverage.where));
  EXPECT_EQ(all.at<uint8_t>(3, 2), 255);
  EXPECT_EQ(all.at<uint8_t>(4, 4), 255);
  EXPECT_EQ(all.at<uint8_t>(3, 7), 0);
  EXPECT_EQ(all.at<uint8_t>(1, 3), 0);
  EXPECT_NEAR(all.at<uint8_t>(3, 5), 128, 64);  // half, within one of its four samples
}

TEST(CanvasTest, HiddenShareIsOfTheTarget) {
  const Canvas canvas({100, 100});
  const Coverage target = canvas.Cover({{{0.2f, 0.2f}, {0.6f, 0.2f}, {0.6f, 0.6f}, {0.2f, 0.6f}}});
  const Coverage half = canvas.Cover({{{0.4f, 0.0f}, {0.9f, 0.0f}, {0.9f, 0.9f}, {0.4f, 0.9f}}});
  const Coverage beside = canvas.Cover({{{0.7f, 0.7f}, {0.9f, 0.7f}, {0.9f, 0.9f}, {0.7f, 0.9f}}});
  EXPECT_NEAR(HiddenShare(target, half), 0.5, 0.02);
  EXPECT_EQ(HiddenShare(target, beside), 0);
  EXPECT_EQ(HiddenShare(target, target), 1);
}

TEST(ShapeLoaderTest, GivesTheStreamInOrderWhateverTheThreads) {
  ShapeLoader one({.seed = 4, .batch_size = 6, .side = 32, .threads = 1});
  ShapeLoader three({.seed = 4, .batch_size = 6, .side = 32, .threads = 3});
  for (int i = 0; i < 5; ++i) {
    const ShapeBatch expected = DrawShapeBatch(4, Stream::kTraining, 6 * i, 6, 32);
    for (ShapeLoader* loader : {&one, &three}) {
      const ShapeBatch batch = loader->Next();
      EXPECT_TRUE(at::equal(batch.pixels, expected.pixels)) << "batch " << i;
      EXPECT_TRUE(at::equal(batch.labels, expected.labels)) << "batch " << i;
    }
  }
}

TEST(NormalisedShapesTest, PutsChannelsFirstAndCentresThem) {
  at::Tensor pixels = at::zeros({1, 2, 2, 3}, at::kByte);
  pixels[0][1][0][2] = 255;
  const at::Tensor normalised = NormalisedShapes(pixels);
  EXPECT_EQ(normalised.sizes(), at::IntArrayRef({1, 3, 2, 2}));
  EXPECT_EQ(normalised[0][2][1][0].item<float>(), 1.0f);
  EXPECT_EQ(normalised[0][0][0][0].item<float>(), -1.0f);
}

}  // namespace
}  // namespace fovea::models::training
