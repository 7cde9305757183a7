#include "server/compare/measure/paired_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

namespace fovea {
namespace {

constexpr int kAFewRounds = 20;

RoundTimes Same(int rounds, double ms) { return RoundTimes(rounds, ms); }

PairedTimes Compare(const std::vector<RoundTimes>& variants, const RoundTimes& control) {
  return CompareTimes(variants, control);
}

// A regular order would let a machine that stalls in every second round stall the same variant.
TEST(RoundOrder, PutsEachVariantAtEachPlaceEquallyOftenInRegularlyChosenRounds) {
  std::mt19937_64 random(1);
  std::array<std::array<int, 3>, 3> count{};
  for (int round = 0; round < 1200; ++round) {
    const std::vector<size_t> order = RoundOrder(3, random);
    if (round % 2 == 1) continue;
    for (size_t place = 0; place < 3; ++place) ++count[place][order[place]];
  }
  for (const auto& place : count) {
    for (int runs : place) EXPECT_NEAR(runs, 200, 4 * 11.5);  // sqrt(600 * 1/3 * 2/3)
  }
}

TEST(RoundOrder, GoesThereAndBack) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<size_t> order = RoundOrder(4, random);
    ASSERT_EQ(order.size(), 8u);
    EXPECT_TRUE(std::equal(order.begin(), order.begin() + 4, order.rbegin()));
    EXPECT_THAT(std::vector(order.begin(), order.begin() + 4),
                testing::UnorderedElementsAre(0, 1, 2, 3));
  }
}

TEST(CompareTimes, MediansAndQuartilesAreOfTheTimes) {
  const PairedTimes times = Compare({{8, 20}}, {1, 1});
  EXPECT_EQ(times.variants[0].ms, (Quartiles{11, 14, 17}));
  EXPECT_EQ(times.control.ms, (Quartiles{1, 1, 1}));
}

TEST(TimesSoFar, AreOfTheRoundsThatAreDone) {
  const std::vector<RoundTimes> one = {{10}, {5}};
  EXPECT_EQ(TimesSoFar(one)[1].compute_ms, (Quartiles{5, 5, 5}));
  EXPECT_EQ(TimesSoFar(one)[1].ratio, 0.5);
  // The rounds' own ratios are 1/2, 3 and 1; that of the medians is 3/4.
  const std::vector<RoundTimes> three = {{2, 1, 4}, {1, 3, 4}};
  const std::vector<TimeSoFar> times = TimesSoFar(three);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].compute_ms, (Quartiles{1.5, 2, 3}));
  EXPECT_EQ(times[0].ratio, 1);
  EXPECT_EQ(times[1].compute_ms, (Quartiles{2, 3, 3.5}));
  EXPECT_EQ(times[1].ratio, 1);
}

TEST(CompareTimes, OfQuietTimesIsSettled) {
  const PairedTimes times = Compare(
      {Same(kAFewRounds, 10), Same(kAFewRounds, 20), Same(kAFewRounds, 7), Same(kAFewRounds, 10)},
      Same(kAFewRounds, 10));
  EXPECT_EQ(times.variants[0].verdict, Verdict::kBaseline);
  EXPECT_EQ(times.variants[1].verdict, Verdict::kSlower);
  EXPECT_EQ(times.variants[1].ratio->value, 2);
  EXPECT_EQ(times.variants[1].difference_ms->value, 10);
  EXPECT_EQ(times.variants[2].verdict, Verdict::kFaster);
  EXPECT_EQ(times.variants[2].difference_ms->value, -3);
  EXPECT_EQ(times.variants[3].verdict, Verdict::kNoDifference);
  EXPECT_TRUE(times.settled());
}

TEST(CompareTimes, OfAFewRoundsHasNoVerdict) {
  const PairedTimes times = Compare({Same(19, 10), Same(19, 20)}, Same(19, 10));
  EXPECT_EQ(times.variants[1].verdict, Verdict::kFewRounds);
  EXPECT_FALSE(times.settled());
}

TEST(Judge, GivesAVerdictWhereTheIntervalLiesBeyondTheControls) {
  const Estimate control{1, 0.99, 1.01, 50};
  EXPECT_EQ(Judge(Estimate{1.1, 1.08, 1.12, 50}, control), Verdict::kSlower);
  EXPECT_EQ(Judge(Estimate{0.9, 0.88, 0.92, 50}, control), Verdict::kFaster);
  EXPECT_EQ(Judge(Estimate{1, 0.99, 1.02, 50}, control), Verdict::kNoDifference);
  // Beyond 1, but not beyond what identical models differ by here.
  EXPECT_EQ(Judge(Estimate{1.01, 1.005, 1.02, 50}, control), Verdict::kNoDifference);
}

TEST(Judge, GivesNoneWhereTheControlIsOff) {
  const Estimate clear{2, 1.99, 2.01, 50};
  EXPECT_EQ(Judge(clear, Estimate{1.05, 1.01, 1.08, 50}), Verdict::kControlOff);
  EXPECT_EQ(Judge(clear, Estimate{0.95, 0.92, 0.99, 50}), Verdict::kControlOff);
}

TEST(Judge, GivesNoneWhereAnIntervalIsWide) {
  const Estimate good{1, 0.99, 1.01, 50};
  EXPECT_EQ(Judge(Estimate{3.32, 1.5, 6, 50}, good), Verdict::kWide);
  EXPECT_EQ(Judge(Estimate{3.32, 3.3, 3.4, 50}, Estimate{1, 0.9, 1.1, 50}), Verdict::kWide);
}

TEST(Judge, GivesNoneWhereRoundsAreAutocorrelated) {
  const Estimate good{1, 0.99, 1.01, 50};
  EXPECT_EQ(Judge(Estimate{2, 1.99, 2.01, 9}, good), Verdict::kUnsteady);
  EXPECT_EQ(Judge(good, Estimate{1, 0.99, 1.01, 9}), Verdict::kUnsteady);
}

// What a machine does to the times of a round's requests.
class Machine {
 public:
  virtual ~Machine() = default;
  // Milliseconds of a run that would take 10 on a quiet machine; called in the order of the runs.
  virtual double Time(int round, std::mt19937_64& random) = 0;
};

double Jitter(double share, std::mt19937_64& random) {
  return std::exp(std::normal_distribution(0.0, share)(random));
}

// Three times slower in the middle third of the rounds.
class SlowInTheMiddle : public Machine {
  double Time(int round, std::mt19937_64& random) override {
    return (round / 67 == 1 ? 30 : 10) * Jitter(0.05, random);
  }
};

// Four times slower at the end than at the start.
class Drifting : public Machine {
  double Time(int round, std::mt19937_64& random) override {
    return 10 * std::pow(4, round / 200.0) * Jitter(0.05, random);
  }
};

// One run in ten is delayed, some a hundredfold.
class HeavyTailed : public Machine {
  double Time(int, std::mt19937_64& random) override {
    const double uniform = std::uniform_real_distribution(0.0, 1.0)(random);
    return 10 * Jitter(0.05, random) * (uniform < 0.1 ? 0.1 / (uniform + 1e-3) : 1);
  }
};

// Its speed wanders; each run finds it where the last one left it.
class Wandering : public Machine {
  double Time(int, std::mt19937_64& random) override {
    log_speed_ = 0.9 * log_speed_ + std::normal_distribution(0.0, 0.1)(random);
    return 10 * std::exp(log_speed_);
  }
  double log_speed_ = 0;
};

// The second of two variants takes `ratio` times as long as the first, which is its own control.
PairedTimes CompareOn(Machine& machine, double ratio, uint64_t seed) {
  std::mt19937_64 random(seed);
  const double factor[] = {1, ratio, 1};
  std::vector<RoundTimes> times(3, RoundTimes(200));
  for (int round = 0; round < 200; ++round) {
    for (const size_t run : RoundOrder(3, random)) {
      times[run][round] += factor[run] * machine.Time(round, random) / 2;
    }
  }
  return Compare({times[0], times[1]}, times[2]);
}

class OnAMachine : public ::testing::TestWithParam<std::function<std::unique_ptr<Machine>()>> {
 protected:
  // Of 25 comparisons how many come to each verdict.
  std::map<Verdict, int> Verdicts(double ratio) {
    std::map<Verdict, int> verdicts;
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      ++verdicts[CompareOn(*GetParam()(), ratio, seed).variants[1].verdict];
    }
    return verdicts;
  }
};

TEST_P(OnAMachine, ADifferenceIsFound) {
  auto verdicts = Verdicts(1.2);
  EXPECT_GE(verdicts[Verdict::kSlower], 20);
  EXPECT_EQ(verdicts[Verdict::kFaster], 0);
}

TEST_P(OnAMachine, AVariantIsNotFoundDifferentFromItself) {
  auto verdicts = Verdicts(1);
  EXPECT_GE(verdicts[Verdict::kNoDifference], 20);
  EXPECT_LE(verdicts[Verdict::kFaster] + verdicts[Verdict::kSlower], 1);
}

INSTANTIATE_TEST_SUITE_P(Disturbed, OnAMachine,
                         ::testing::Values([] { return std::make_unique<SlowInTheMiddle>(); },
                                           [] { return std::make_unique<Drifting>(); },
                                           [] { return std::make_unique<HeavyTailed>(); },
                                           [] { return std::make_unique<Wandering>(); }));

// The same model gets other times for minutes on end, as when its threads share a core with another
// program: nothing that is measured here says how long that lasts.
TEST(CompareTimes, OfAVariantWhoseTimesWanderByThemselvesHasNoVerdict) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    RoundTimes variant;
    double log_ratio = 0;
    for (int round = 0; round < 200; ++round) {
      log_ratio = 0.99 * log_ratio + std::normal_distribution(0.0, 0.1)(random);
      variant.push_back(10 * std::exp(log_ratio));
    }
    const PairedTimes times = Compare({Same(200, 10), variant}, Same(200, 10));
    EXPECT_FALSE(IsVerdict(times.variants[1].verdict)) << seed;
  }
}

}  // namespace
}  // namespace fovea
