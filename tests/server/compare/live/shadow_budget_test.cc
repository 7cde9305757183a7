#include "server/compare/live/shadow_budget.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

constexpr Nanos kStart = 5 * kSecond;

TEST(ShadowBudget, BeginsWithNothing) {
  ShadowBudget budget(0.1, /*threads=*/4, kStart);
  EXPECT_FALSE(budget.Allows(kStart));
  EXPECT_TRUE(budget.Allows(kStart + kMillisecond));
}

TEST(ShadowBudget, GivesItsShareOfTheThreadsTime) {
  ShadowBudget budget(0.1, /*threads=*/4, kStart);
  // Copies of 50 ms on four threads, as often as they are allowed, for 100 seconds.
  Nanos spent = 0;
  for (Nanos now = kStart; now < kStart + 100 * kSecond; now += kMillisecond) {
    if (!budget.Allows(now)) continue;
    budget.Spend(200 * kMillisecond, now);
    spent += 200 * kMillisecond;
  }
  // A tenth of four threads' 100 seconds, and what one copy may owe.
  EXPECT_LE(spent, 40 * kSecond + 200 * kMillisecond);
  EXPECT_GE(spent, 40 * kSecond - 400 * kMillisecond);
}

TEST(ShadowBudget, ALongQuietTimeBringsNoLongBurst) {
  ShadowBudget budget(0.5, /*threads=*/1, kStart);
  const Nanos now = kStart + 3600 * kSecond;
  Nanos spent = 0;
  while (budget.Allows(now)) {
    budget.Spend(10 * kMillisecond, now);
    spent += 10 * kMillisecond;
  }
  EXPECT_LE(spent, 510 * kMillisecond);
}

TEST(ShadowBudget, WhatIsOwedIsPaidFirst) {
  ShadowBudget budget(0.1, /*threads=*/1, kStart);
  ASSERT_TRUE(budget.Allows(kStart + kMillisecond));
  budget.Spend(kSecond, kStart + kMillisecond);
  EXPECT_FALSE(budget.Allows(kStart + 9 * kSecond));
  EXPECT_TRUE(budget.Allows(kStart + 11 * kSecond));
}

}  // namespace
}  // namespace fovea
