#include "server/scheduler/concurrency_estimate.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(ConcurrencyEstimateTest, WhoComesAloneIsAlone) {
  ConcurrencyEstimate estimate;
  EXPECT_EQ(estimate.images(), 0);
  estimate.OnArrival(/*images=*/1, /*others=*/0, /*alone_after=*/10, /*now=*/0);
  EXPECT_EQ(estimate.images(), 1) << "nothing is measured yet, and nothing has run";
}

TEST(ConcurrencyEstimateTest, FollowsWhatArrivalsFind) {
  ConcurrencyEstimate estimate;
  for (int i = 0; i < 8; ++i) estimate.OnArrival(1, 9, 10, 100);
  EXPECT_EQ(estimate.images(), 9) << "nine tenths of the way to ten";
  for (int i = 0; i < 8; ++i) estimate.OnArrival(1, 0, 10, 100);
  EXPECT_LE(estimate.images(), 9);
}

TEST(ConcurrencyEstimateTest, AMomentBetweenTwoBatchesIsNoEnd) {
  ConcurrencyEstimate estimate;
  for (int i = 0; i < 20; ++i) estimate.OnArrival(1, 3, 10, 100);
  estimate.OnBatchDone(200);
  estimate.OnArrival(1, 0, 10, 209);
  EXPECT_EQ(estimate.images(), 3) << "a quarter of the way from four to one";
  estimate.OnArrival(1, 0, 10, 210);
  EXPECT_EQ(estimate.images(), 1) << "it starts anew";
}

TEST(ConcurrencyEstimateTest, ALargeRequestAloneIsItsImages) {
  ConcurrencyEstimate estimate;
  estimate.OnArrival(8, 0, 10, 100);
  EXPECT_EQ(estimate.images(), 8);
}

}  // namespace
}  // namespace fovea
