#include "server/compare/live/arm_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

#include "tests/server/compare/simulated_machine.h"

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

TEST_F(ArmTestsTest, CopiesOfBothAreWarmedUpAndChangePlaces) {
  const auto written = [](const ArmTests& tests) {
    std::string text;
    for (const ArmTests::CopyRun& run : tests.NextCopy()) {
      text += run.of_baseline ? 'B' : 'A';
      if (run.timed) text += '!';
    }
    return text;
  };
  EXPECT_EQ(written(tests_), "A") << "its latency is that of its traffic";
  for (const char* expected : {"AA!BB!", "BB!AA!", "AA!BB!"}) {
    EXPECT_EQ(written(copies_), expected);
    copies_.OnCopy({.differs = false});
    EXPECT_EQ(written(copies_), expected) << "it was given up, and is to be made up for";
    copies_.OnCopy({.latency_ratio = 1});
  }
}

// A test of validity, on machines with noise: looked at after each observation, and stopped at the
// first verdict.
class OnAMachine : public testing::TestWithParam<MachineNoise> {
 protected:
  static constexpr int kRuns = 200;
  static constexpr int kMostCopies = 3000, kMostWindows = 6000;
  static constexpr double kPassMs = 2;

  static std::optional<TestVerdict> VerdictOf(const ArmTests& tests) {
    const auto ratio = tests.latency_ratio();
    if (!ratio || ratio->verdict == TestVerdict::kUndecided) return std::nullopt;
    return ratio->verdict;
  }

  // Requests of the baseline's, now and then, and copies of them.
  static TestVerdict ByCopies(SimulatedMachine& machine, double ratio) {
    ArmTests tests({}, kError, /*by_windows=*/false);
    for (int copy = 0; copy < kMostCopies; ++copy) {
      machine.Idle(machine.Exponential(20));
      machine.Pass(kPassMs, /*weights=*/0, /*bytes=*/copy);  // of the request itself
      double ms[2] = {0, 0};
      for (const ArmTests::CopyRun& run : tests.NextCopy()) {
        const double took = machine.Pass(run.of_baseline ? kPassMs : kPassMs * ratio,
                                         /*weights=*/run.of_baseline ? 0 : 1, /*bytes=*/copy);
        if (run.timed) ms[run.of_baseline] = took;
      }
      tests.OnCopy({.latency_ratio = ms[0] / ms[1]});
      if (copy % SequentialMean::kFirstBlock != 0) continue;  // the interval is that of before
      if (const auto verdict = VerdictOf(tests)) return *verdict;
    }
    return TestVerdict::kUndecided;
  }

  // Requests to both, each of which waits for those before it.
  static TestVerdict ByTraffic(SimulatedMachine& machine, double ratio) {
    ArmTests tests({}, kError, /*by_windows=*/true);
    Nanos arrival = 0;
    for (uint64_t request = 0, windows = 0; windows < kMostWindows; ++request) {
      arrival += static_cast<Nanos>(machine.Exponential(15) * kMillisecond);
      const Nanos idle = arrival - machine.Now();
      if (idle > 0) machine.Idle(static_cast<double>(idle) / kMillisecond);
      const bool of_baseline = machine.Chance(0.5);
      machine.Pass(of_baseline ? kPassMs : kPassMs * ratio, /*weights=*/of_baseline ? 0 : 1,
                   /*bytes=*/request);
      const Nanos now = machine.Now();
      if (!tests.OnAnswer(of_baseline, /*failed=*/false, now - arrival, now)) continue;
      if (++windows % SequentialMean::kFirstBlock != 0) continue;
      if (const auto verdict = VerdictOf(tests)) return *verdict;
    }
    return TestVerdict::kUndecided;
  }

  using Compare = TestVerdict(SimulatedMachine&, double);
  static std::map<TestVerdict, double> Verdicts(Compare compare, double ratio) {
    std::map<TestVerdict, double> verdicts;
    for (uint64_t seed = 1; seed <= kRuns; ++seed) {
      SimulatedMachine machine(GetParam(), seed);
      verdicts[compare(machine, ratio)] += 1.0 / kRuns;
    }
    return verdicts;
  }

  static void CheckValidity(Compare compare) {
    auto alike = Verdicts(compare, 1);
    EXPECT_LE(alike[TestVerdict::kLower] + alike[TestVerdict::kHigher], 0.05);
    auto different = Verdicts(compare, 1.05);
    EXPECT_LE(different[TestVerdict::kLower] + different[TestVerdict::kEquivalent], 0.05);
    EXPECT_GE(different[TestVerdict::kHigher], 0.8);
  }
};

TEST_P(OnAMachine, CopiesSeldomErr) { CheckValidity(&ByCopies); }
TEST_P(OnAMachine, TrafficSeldomErrs) { CheckValidity(&ByTraffic); }

INSTANTIATE_TEST_SUITE_P(Disturbed, OnAMachine, testing::ValuesIn(kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

}  // namespace
}  // namespace fovea
