#include "server/scheduler/latency_model.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(LatencyModelTest, KnowsNothingBeforeTheFirstRun) {
  const LatencyModel model;
  EXPECT_EQ(model.Typical(4), 0);
  EXPECT_EQ(model.Fast(4), 0);
  EXPECT_EQ(model.Slow(4), 0);
  EXPECT_FALSE(model.Trusted(0));
}

TEST(LatencyModelsTest, EachShapeHasACurveOfItsOwn) {
  LatencyModels models;
  models.Record({.images = 2, .shape_key = 7}, 20, 0);
  models.Record({.images = 2, .shape_key = 9}, 60, 0);
  EXPECT_EQ(models.Of(7, 1).Typical(2), 20);
  EXPECT_EQ(models.Of(9, 1).Typical(2), 60);
  EXPECT_EQ(models.Of(0, 1).Typical(2), 0);
  EXPECT_FALSE(models.Of(0).Trusted(0));
}

TEST(LatencyModelsTest, EachNumberOfThreadsHasACurveOfItsOwn) {
  LatencyModels models;
  EXPECT_EQ(models.Of(7).latest_threads(), 0);
  EXPECT_EQ(models.Of(7).Fast(2), 0);
  models.Record({.images = 2, .shape_key = 7, .threads = 4}, 20, 0);
  models.Record({.images = 2, .shape_key = 7, .threads = 1}, 60, LatencyModel::kTrust);
  EXPECT_EQ(models.Of(7, 4).Typical(2), 20);
  EXPECT_EQ(models.Of(7, 1).Typical(2), 60);
  EXPECT_EQ(models.Of(7, 2).least(), 0);
  EXPECT_EQ(models.Of(7).latest_threads(), 1);
  EXPECT_EQ(models.Of(7).Fast(2), 20);
  models.Record({.images = 2, .shape_key = 7, .threads = 8}, 30, 0);
  EXPECT_EQ(models.Of(7).Fast(2), 20) << "more threads may take longer";
  models.Record({.images = 2, .shape_key = 7, .threads = 1}, 60, LatencyModel::kTrust);
  EXPECT_TRUE(models.Of(7).Trusted(LatencyModel::kTrust));
  EXPECT_FALSE(models.Of(7, 4).Trusted(LatencyModel::kTrust));
}

TEST(LatencyModelTest, ReadsTheMeasuredSizesAsMeasured) {
  LatencyModel model;
  model.Record(1, 10, 0);
  model.Record(8, 45, 0);
  EXPECT_EQ(model.Typical(1), 10);
  EXPECT_EQ(model.Typical(8), 45);
}

TEST(LatencyModelTest, InterpolatesBetweenMeasuredSizes) {
  LatencyModel model;
  model.Record(2, 20, 0);
  model.Record(6, 40, 0);
  EXPECT_EQ(model.Typical(3), 25);
  EXPECT_EQ(model.Fast(4), 30);
  EXPECT_EQ(model.Slow(5), 35);
}

TEST(LatencyModelTest, IsBoundedByConstantAndProportionalOutsideOfTheMeasuredSizes) {
  LatencyModel model;
  model.Record(4, 40, 0);
  EXPECT_EQ(model.Fast(1), 10);
  EXPECT_EQ(model.Typical(1), 10);
  EXPECT_EQ(model.Slow(1), 40);
  EXPECT_EQ(model.Fast(8), 40);
  EXPECT_EQ(model.Typical(8), 80);
  EXPECT_EQ(model.Slow(8), 80);
}

TEST(LatencyModelTest, IsNotBentByOneHiccup) {
  LatencyModel model;
  for (int run = 0; run < LatencyModel::kRunsKept - 1; ++run) model.Record(1, 100 + run, 0);
  model.Record(1, 1'000'000, 0);
  EXPECT_EQ(model.Typical(1), 107);
  EXPECT_EQ(model.Fast(1), 100);
  EXPECT_EQ(model.Slow(1), 114);
}

TEST(LatencyModelTest, FollowsALastingChange) {
  LatencyModel model;
  for (int run = 0; run < 100; ++run) model.Record(1, 100, 0);
  for (int run = 0; run < LatencyModel::kRunsKept / 2 + 1; ++run) model.Record(1, 300, 0);
  EXPECT_EQ(model.Typical(1), 300);
  for (int run = 0; run < LatencyModel::kRunsKept / 2; ++run) model.Record(1, 300, 0);
  EXPECT_EQ(model.Fast(1), 300);
}

TEST(LatencyModelTest, ForgetsOldRunsOfASizeAndSizesThatAreNoLongerRun) {
  LatencyModel model;
  model.Record(1, 100, 0);
  model.Record(8, 800, 0);
  model.Record(1, 10, LatencyModel::kMemory);
  EXPECT_EQ(model.Slow(1), 100);
  EXPECT_EQ(model.Typical(8), 800);
  model.Record(1, 10, LatencyModel::kMemory + 1);
  EXPECT_EQ(model.Slow(1), 10);
  EXPECT_EQ(model.Typical(8), 80);
}

TEST(LatencyModelTest, IsTrustedForAWhileAfterTheLatestRun) {
  LatencyModel model;
  model.Record(1, 100, 0);
  model.Record(1, 100, 5 * kSecond);
  EXPECT_TRUE(model.Trusted(5 * kSecond));
  EXPECT_TRUE(model.Trusted(5 * kSecond + LatencyModel::kTrust - 1));
  EXPECT_FALSE(model.Trusted(5 * kSecond + LatencyModel::kTrust));
}

TEST(LatencyModelTest, ABatchIsWorthGrowingUntilItsImagesTakeHardlyLess) {
  LatencyModel model;
  EXPECT_EQ(model.Worthwhile(8, 8, 0), 8) << "nothing is known";
  model.Record(1, 10, 0);
  EXPECT_EQ(model.Worthwhile(8, 8, 0), 8) << "no larger one was measured";
  for (const auto& [images, took] : {std::pair(2, 18), {4, 34}, {8, 66}}) {
    model.Record(images, took, 0);
  }
  EXPECT_EQ(model.Worthwhile(100, 8, 0), 4) << "8.5 each, of eight 8.25; of two 9";
  EXPECT_EQ(model.Worthwhile(3, 8, 0), 3);
  EXPECT_EQ(model.Worthwhile(8, 3, 0), 3);
  model.Record(16, 80, 0);
  EXPECT_EQ(model.Worthwhile(16, 16, 0), 16) << "it pays after all";
}

// A run takes 20 and 2 for each image: doubling pays, one image more hardly does.
TEST(LatencyModelTest, WhatPaysIsKnownFromBatchesOfTwiceTheSize) {
  LatencyModel model;
  for (int images = 1; images <= 20; ++images) model.Record(images, 20 + 2 * images, 0);
  EXPECT_EQ(model.Worthwhile(25, 64, 0), 25) << "eighteen do, by the steps to twenty";
  EXPECT_EQ(model.Worthwhile(25, 20, 0), 18) << "no larger one is made";
  for (const int images : {32, 64}) model.Record(images, 20 + 2 * images, 0);
  EXPECT_EQ(model.Worthwhile(64, 64, 0), 64);
}

TEST(LatencyModelTest, WhatPaysIsLookedAtAnewAfterAMinute) {
  LatencyModel little;
  for (const int images : {1, 2, 3, 4, 8}) little.Record(images, 10 * images, 0);
  EXPECT_EQ(little.Worthwhile(5, 8, 0), 1);
  const Nanos later = LatencyModel::kFresh;
  EXPECT_EQ(little.Worthwhile(1, 8, later), 1);
  EXPECT_EQ(little.Worthwhile(5, 8, later), 5) << "it will tell whether larger ones pay by now";
  little.Record(5, 50, later);
  EXPECT_EQ(little.Worthwhile(5, 8, later), 1);
}

}  // namespace
}  // namespace fovea
