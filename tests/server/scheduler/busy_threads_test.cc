#include "server/scheduler/busy_threads.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(BusyThreadsTest, IsWhatRunsKeepBusyOnAverage) {
  BusyThreads busy;
  EXPECT_EQ(busy.average(kSecond), 0);
  Nanos now = kSecond;
  for (int run = 0; run < 500; ++run) {
    now += 20 * kMillisecond;
    busy.Add(/*threads=*/3, /*duration=*/10 * kMillisecond, now);
  }
  EXPECT_NEAR(busy.average(now), 1.5, 0.05);
}

TEST(BusyThreadsTest, ForgetsWhoHasStopped) {
  BusyThreads busy;
  busy.Add(2, 100 * kSecond, 200 * kSecond);
  EXPECT_NEAR(busy.average(200 * kSecond), 2, 1e-9);
  EXPECT_NEAR(busy.average(200 * kSecond + BusyThreads::kTimeConstant), 2 * 0.368, 0.001);
  EXPECT_LT(busy.average(200 * kSecond + 8 * BusyThreads::kTimeConstant), 0.001);
}

TEST(BusyThreadsTest, ALongRunCountsAsItsThreadsAndNoMore) {
  BusyThreads busy;
  for (int run = 1; run <= 10; ++run) {
    busy.Add(2, 3 * kSecond, run * 3 * kSecond);
    EXPECT_LE(busy.average(run * 3 * kSecond), 2);
  }
  EXPECT_NEAR(busy.average(30 * kSecond), 2, 0.01);
}

TEST(BusyThreadsTest, RunsSideBySideAddUp) {
  BusyThreads busy;
  busy.Add(1, 50 * kSecond, 50 * kSecond);
  busy.Add(1, 50 * kSecond, 50 * kSecond);
  EXPECT_NEAR(busy.average(50 * kSecond), 2, 1e-9);
}

}  // namespace
}  // namespace fovea
