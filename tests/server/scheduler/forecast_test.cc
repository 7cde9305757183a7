#include "server/scheduler/forecast.h"

#include <gtest/gtest.h>

#include <vector>

namespace fovea {
namespace {

// A run takes 2 and 1 for each image.
LatencyModel Curve() {
  LatencyModel curve;
  for (int images = 1; images <= 8; ++images) curve.Record(images, 2 + images, 0);
  return curve;
}

constexpr Nanos kFreeAt[] = {100};

Outlook On(int images_ahead) {
  return {.images_ahead = images_ahead,
          .images_queued = images_ahead,
          .images_per_batch = 8,
          .free_at = kFreeAt};
}

TEST(ForecastTest, OnAnIdleDeviceIsTheRequestsOwnRun) {
  EXPECT_EQ(PredictFinish(On(0), Curve()), 103);
}

TEST(ForecastTest, TakesARequestWithoutOthersToBeAsFastAsEver) {
  LatencyModel curve;
  for (const Nanos took : {50, 10, 90}) curve.Record(1, took, 0);
  Outlook alone = On(0);
  alone.images_per_batch = 1;
  EXPECT_EQ(PredictFinish(alone, curve), 100 + 10);
  alone.images_queued = 1;
  EXPECT_EQ(PredictFinish(alone, curve), 100 + 90);
}

TEST(ForecastTest, RunsWithTheBatchPeersThatAreInLine) {
  EXPECT_EQ(PredictFinish(On(3), Curve()), 100 + 6);
  Outlook overtaking = On(0);
  overtaking.images_queued = 5;  // behind it, but they fit in
  EXPECT_EQ(PredictFinish(overtaking, Curve()), 100 + 8);
}

TEST(ForecastTest, DoesNotStartBeforeTheRequestIsDecoded) {
  Outlook outlook = On(8);
  outlook.ready_at = 105;  // while a full batch runs
  EXPECT_EQ(PredictFinish(outlook, Curve()), 100 + 10 + 10);
  outlook.ready_at = 500;
  EXPECT_EQ(PredictFinish(outlook, Curve()), 500 + 10);
}

TEST(ForecastTest, WaitsForFullBatchesAhead) {
  EXPECT_EQ(PredictFinish(On(8), Curve()), 100 + 10 + 10);
  EXPECT_EQ(PredictFinish(On(30), Curve()), 100 + 3 * 10 + 10);
}

TEST(ForecastTest, WaitsForTheNextBatchWhereItDoesNotFitIn) {
  Outlook large = On(7);
  EXPECT_EQ(PredictFinish(large, Curve()), 100 + 10);
  large.images = 2;
  EXPECT_EQ(PredictFinish(large, Curve()), 100 + 10 + 10);
}

TEST(ForecastTest, SpreadsTheLineOverTheInstances) {
  const std::vector<Nanos> free_at = {100, 104};
  const auto with = [&](int images_ahead) {
    Outlook outlook = On(images_ahead);
    outlook.parallel_batches = 2;
    outlook.device_threads = 2;
    outlook.free_at = free_at;
    return PredictFinish(outlook, Curve());
  };
  EXPECT_EQ(with(32), 100 + 2 * 10 + 10);
  EXPECT_EQ(with(39), 100 + 2 * 10 + 10) << "the last of the fifth batch";
  EXPECT_EQ(with(40), 104 + 2 * 10 + 10) << "the sixth, on the other instance";
}

TEST(ForecastTest, SharesTheDeviceWithModelsThatHaveWork) {
  Outlook outlook = On(16);  // 30 alone
  const std::vector<Outlook::Competitor> competing = {{.device_time = 1'000, .share = 1},
                                                      {.device_time = 7, .share = 1}};
  outlook.competing = competing;
  EXPECT_EQ(PredictFinish(outlook, Curve()), 100 + 30 + 30 + 7);
}

TEST(ForecastTest, AModelOfMoreWeightTakesSoMuchMoreOfTheDevice) {
  Outlook outlook = On(16);  // 30 alone
  std::vector<Outlook::Competitor> competing = {{.device_time = 1'000, .share = 2}};
  outlook.competing = competing;
  EXPECT_EQ(PredictFinish(outlook, Curve()), 100 + 30 + 60);
  competing = {{.device_time = 1'000, .share = 0.1}};
  outlook.competing = competing;
  EXPECT_EQ(PredictFinish(outlook, Curve()), 100 + 30 + 3);
}

TEST(ForecastTest, WhatOthersTakeOnAverageGoesOnComing) {
  Outlook outlook = On(16);  // 30 alone
  outlook.device_threads = 4;
  std::vector<Outlook::Competitor> competing = {{.device_time = 0, .busy_threads = 1, .share = 1}};
  outlook.competing = competing;
  EXPECT_EQ(PredictFinish(outlook, Curve()), 100 + 30 + 10 / 4)
      << "30 take 10 on the three threads that are left: 10 more come meanwhile";
  competing[0].device_time = 12;
  EXPECT_EQ(PredictFinish(outlook, Curve()), 100 + 30 + 12 / 4) << "more than that waits already";
  competing[0].busy_threads = 4;
  EXPECT_EQ(PredictFinish(outlook, Curve()), 100 + 30 + 30 / 4) << "no more than its share";
}

}  // namespace
}  // namespace fovea
