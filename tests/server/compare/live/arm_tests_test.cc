#include "server/compare/live/arm_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace fovea {
namespace {

using testing::HasSubstr;

constexpr double kError = 0.05 / 3;
constexpr Nanos kWindow = 100 * kMillisecond;

// Requests that come all the time to an arm and to its baseline.
class Traffic {
 public:
  explicit Traffic(ArmTests& tests) : tests_(tests) {}

  double ratio = 1;          // of the arm's latency
  double spread = 0.3;       // of the logarithm of each latency
  double slow_windows = 0;   // of windows in which all take five times as long
  double arm_failures = 0;   // of requests
  double both_failures = 0;  // of windows in which all fail

  // So many windows, of four requests each for both.
  void Run(int windows) {
    for (int i = 0; i < windows; ++i) {
      const bool slow = Chance(slow_windows), broken = Chance(both_failures);
      for (int request = 0; request < 4; ++request) {
        for (const bool of_baseline : {true, false}) {
          std::lognormal_distribution<double> noise(0, spread);
          const double latency = 10e6 * (slow ? 5 : 1) * (of_baseline ? 1 : ratio) * noise(random_);
          const bool failed = broken || (!of_baseline && Chance(arm_failures));
          tests_.OnAnswer(of_baseline, failed, static_cast<Nanos>(latency), now_);
        }
        now_ += kWindow / 3;
      }
    }
  }

 private:
  bool Chance(double share) { return std::bernoulli_distribution(share)(random_); }

  ArmTests& tests_;
  std::mt19937_64 random_{7};
  Nanos now_ = kSecond;
};

class ArmTestsTest : public testing::Test {
 protected:
  ArmTests tests_{ExperimentPlan{}, kError, /*by_windows=*/true};
  ArmTests copies_{ExperimentPlan{}, kError, /*by_windows=*/false};
  Traffic traffic_{tests_};
};

TEST_F(ArmTestsTest, NothingIsSaidOfNothing) {
  EXPECT_FALSE(tests_.latency_ratio() || tests_.disagreement() || tests_.error_excess());
  EXPECT_EQ(tests_.Broken({}, "arm"), std::nullopt);
}

TEST_F(ArmTestsTest, AWindowNeedsAnswersOfBoth) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(tests_.OnAnswer(/*of_baseline=*/true, false, kMillisecond, i * kSecond));
  }
  EXPECT_FALSE(tests_.latency_ratio());
  EXPECT_TRUE(tests_.OnAnswer(/*of_baseline=*/false, false, kMillisecond, 100 * kSecond));
  ASSERT_TRUE(tests_.latency_ratio());
  EXPECT_EQ(tests_.latency_ratio()->observations, 1u) << "a hundred requests in it or two";
  EXPECT_EQ(tests_.latency_ratio()->verdict, TestVerdict::kUndecided);
  EXPECT_EQ(tests_.latency_ratio()->lower, 0);
  EXPECT_EQ(tests_.latency_ratio()->upper, std::numeric_limits<double>::infinity());
}

// 200 windows are 20 seconds of traffic.
TEST_F(ArmTestsTest, ADifferenceOfAFifthIsFoundSoon) {
  traffic_.ratio = 1.2;
  traffic_.Run(200);
  const SequentialTest ratio = *tests_.latency_ratio();
  EXPECT_EQ(ratio.verdict, TestVerdict::kHigher) << ratio.lower << " to " << ratio.upper;
  EXPECT_LT(ratio.lower, 1.2);
  EXPECT_GT(ratio.upper, 1.2);
  EXPECT_NEAR(ratio.estimate, 1.2, 0.1);
}

TEST_F(ArmTestsTest, AnArmThatIsFasterIsLower) {
  traffic_.ratio = 0.6;
  traffic_.Run(200);
  EXPECT_EQ(tests_.latency_ratio()->verdict, TestVerdict::kLower);
}

TEST_F(ArmTestsTest, WhatIsAlikeIsEquivalentInTheEnd) {
  traffic_.Run(3000);
  EXPECT_EQ(tests_.latency_ratio()->verdict, TestVerdict::kEquivalent)
      << tests_.latency_ratio()->lower << " to " << tests_.latency_ratio()->upper;
  EXPECT_EQ(tests_.error_excess()->verdict, TestVerdict::kEquivalent)
      << tests_.error_excess()->upper;
}

TEST_F(ArmTestsTest, WhatSlowsBothDownIsNoNoise) {
  traffic_.slow_windows = 0.3;
  traffic_.ratio = 1.2;
  traffic_.Run(300);
  EXPECT_EQ(tests_.latency_ratio()->verdict, TestVerdict::kHigher)
      << tests_.latency_ratio()->lower << " to " << tests_.latency_ratio()->upper;
}

TEST_F(ArmTestsTest, WhatMakesBothFailIsNoExcess) {
  traffic_.both_failures = 0.3;
  traffic_.Run(1000);
  EXPECT_EQ(tests_.error_excess()->estimate, 0);
  EXPECT_EQ(tests_.Broken({}, "arm"), std::nullopt);
  EXPECT_LT(tests_.latency_ratio()->observations, 800u) << "a failure has no latency";
}

TEST_F(ArmTestsTest, AnArmThatFailsBreaksItsGuardRail) {
  traffic_.arm_failures = 0.3;
  traffic_.Run(150);
  EXPECT_EQ(tests_.error_excess()->verdict, TestVerdict::kHigher);
  EXPECT_THAT(tests_.Broken({}, "vit/knn").value_or(""), HasSubstr("max_error_excess: vit/knn"));
  EXPECT_EQ(tests_.Broken({.max_error_excess = 0.9}, "arm"), std::nullopt);
}

TEST_F(ArmTestsTest, AnArmThatIsSlowBreaksItsGuardRailOnceThatIsCertain) {
  traffic_.ratio = 3;
  traffic_.Run(20);
  EXPECT_EQ(tests_.Broken({}, "arm"), std::nullopt) << "no interval yet";
  traffic_.Run(200);
  EXPECT_THAT(tests_.Broken({}, "arm").value_or(""), HasSubstr("max_latency_ratio"));
  EXPECT_EQ(tests_.Broken({.max_latency_ratio = 4}, "arm"), std::nullopt);
}

TEST_F(ArmTestsTest, CopiesTestAllThreeOfAnArmWithoutTraffic) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> noise(0, 0.2);
  for (int i = 0; i < 2000; ++i) {
    copies_.OnCopy({.latency_ratio = 1.3 * noise(random), .differs = i % 4 == 0});
  }
  EXPECT_EQ(copies_.latency_ratio()->verdict, TestVerdict::kHigher);
  EXPECT_EQ(copies_.disagreement()->verdict, TestVerdict::kHigher);
  EXPECT_NEAR(copies_.disagreement()->estimate, 0.25, 0.01);
  EXPECT_EQ(copies_.error_excess()->estimate, 0);
  EXPECT_EQ(copies_.Broken({}, "arm"), std::nullopt) << "no rail on disagreement";
  EXPECT_THAT(copies_.Broken({.max_disagreement = 0.1}, "arm").value_or(""),
              HasSubstr("max_disagreement"));
}

TEST_F(ArmTestsTest, FewDifferencesAreEquivalent) {
  for (int i = 0; i < 2000; ++i) copies_.OnCopy({.differs = i % 100 == 0});
  EXPECT_EQ(copies_.disagreement()->verdict, TestVerdict::kEquivalent);
}

TEST_F(ArmTestsTest, CopiesOfAnArmWithTrafficTestItsAnswersAlone) {
  for (int i = 0; i < 200; ++i) tests_.OnCopy({.latency_ratio = 9, .differs = false});
  EXPECT_FALSE(tests_.latency_ratio());
  EXPECT_FALSE(tests_.error_excess());
  EXPECT_EQ(tests_.disagreement()->observations, 200u);
}

TEST_F(ArmTestsTest, CopiesThatFailAreFailures) {
  for (int i = 0; i < 100; ++i) copies_.OnCopy({.failed = i % 2 == 0});
  EXPECT_THAT(copies_.Broken({}, "arm").value_or(""), HasSubstr("max_error_excess"));
}

}  // namespace
}  // namespace fovea
