#include "server/compare/measure/paired_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>

#include "tests/server/compare/simulated_machine.h"

namespace fovea {
namespace {

constexpr int kAFewRounds = 20;

RoundTimes Same(int rounds, double ms) { return RoundTimes(rounds, ms); }

PairedTimes Compare(const std::vector<RoundTimes>& variants, const RoundTimes& control) {
  return CompareTimes(variants, control, /*looks=*/1);
}

std::vector<size_t> Timed(const std::vector<RoundPass>& passes) {
  std::vector<size_t> timed;
  for (const RoundPass& pass : passes) {
    if (pass.timed) timed.push_back(pass.variant);
  }
  return timed;
}

// A regular order would let a machine that stalls in every second round stall the same variant.
TEST(RoundOrder, PutsEachVariantAtEachPlaceEquallyOftenInRegularlyChosenRounds) {
  std::mt19937_64 random(1);
  std::array<std::array<int, 3>, 3> count{};
  for (int round = 0; round < 1200; ++round) {
    const std::vector<size_t> order = Timed(RoundOrder(3, random));
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
    std::vector<size_t> order = Timed(RoundOrder(4, random));
    ASSERT_EQ(order.size(), 8u);
    EXPECT_TRUE(std::equal(order.begin(), order.begin() + 4, order.rbegin()));
    EXPECT_THAT(std::vector(order.begin(), order.begin() + 4),
                testing::UnorderedElementsAre(0, 1, 2, 3));
  }
}

// A pass behind one of the same weights, or the first over an image, takes another time.
TEST(RoundOrder, TimesEachPassBehindAnotherVariants) {
  std::mt19937_64 random(1);
  for (size_t variants = 2; variants <= 4; ++variants) {
    for (int round = 0; round < 100; ++round) {
      const std::vector<RoundPass> passes = RoundOrder(variants, random);
      EXPECT_FALSE(passes[0].timed);
      for (size_t i = 1; i < passes.size(); ++i) {
        EXPECT_NE(passes[i].variant, passes[i - 1].variant);
      }
    }
  }
  EXPECT_EQ(Timed(RoundOrder(1, random)), (std::vector<size_t>{0, 0}));
}

TEST(PairedRounds, TakeTheMeanOfTheTimedPasses) {
  PairedRounds rounds;
  double ms = 1;
  std::vector<RoundTimes> expected(2, RoundTimes(2, 0));
  for (size_t round = 0; round < 2; ++round) {
    const auto run = [&](std::span<const RoundPass> passes, size_t of) {
      EXPECT_EQ(of, round);
      std::vector<double> took;
      for (const RoundPass& pass : passes) {
        took.push_back(ms *= 2);
        if (pass.timed) expected[pass.variant][of] += ms / 2;
      }
      return took;
    };
    ASSERT_TRUE(rounds.Run(2, run).ok());
  }
  EXPECT_EQ(rounds.times(), expected);
  const auto fails = [](std::span<const RoundPass>, size_t) { return absl::CancelledError(""); };
  EXPECT_FALSE(rounds.Run(2, fails).ok());
  EXPECT_EQ(rounds.rounds(), 2u);
}

TEST(Looks, AreFewAndEndAtTheMost) {
  EXPECT_THAT(Looks(20, 200), testing::ElementsAre(20, 40, 80, 160, 200));
  EXPECT_THAT(Looks(20, 20), testing::ElementsAre(20));
  EXPECT_THAT(Looks(20, 5), testing::ElementsAre(20));
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
  EXPECT_EQ(times.variants[3].verdict, Verdict::kEquivalent);
  EXPECT_TRUE(times.settled());
}

TEST(CompareTimes, OfAFewRoundsHasNoVerdict) {
  const PairedTimes times = Compare({Same(19, 10), Same(19, 20)}, Same(19, 10));
  EXPECT_EQ(times.variants[1].verdict, Verdict::kFewRounds);
  EXPECT_FALSE(times.settled());
}

struct Judged {
  double lower, upper;  // of the ratio
  double control_lower, control_upper;
  Verdict verdict;
};

TEST(Judge, SaysWhatTheIntervalAllows) {
  for (const Judged& judged : {
           Judged{1.08, 1.12, 0.99, 1.01, Verdict::kSlower},
           Judged{0.88, 0.92, 0.99, 1.01, Verdict::kFaster},
           Judged{0.99, 1.02, 0.99, 1.01, Verdict::kEquivalent},
           // Some difference is certain, and it is less than the margin.
           Judged{1.005, 1.02, 0.99, 1.01, Verdict::kEquivalent},
           Judged{1.009, 1.057, 0.99, 1.005, Verdict::kSlower},
           Judged{0.99, 1.057, 0.99, 1.005, Verdict::kUndecided},
           // Identical models differ by as much here: that is no evidence that these do not.
           Judged{1.072, 1.103, 0.984, 1.08, Verdict::kUndecided},
           Judged{0.9, 0.93, 0.92, 1.01, Verdict::kUndecided},
           // Off, and by less than counts.
           Judged{1.08, 1.12, 1.01, 1.03, Verdict::kSlower},
           Judged{1.02, 1.06, 1.01, 1.03, Verdict::kUndecided},
           Judged{1.02, 1.06, 0.97, 0.99, Verdict::kSlower},
           Judged{1.99, 2.01, 1.01, 1.08, Verdict::kControlOff},
           Judged{1.99, 2.01, 0.92, 0.99, Verdict::kControlOff},
       }) {
    EXPECT_EQ(Judge(Estimate{1, judged.lower, judged.upper, 50},
                    Estimate{1, judged.control_lower, judged.control_upper, 50}),
              judged.verdict)
        << judged.lower << " to " << judged.upper << ", control " << judged.control_lower << " to "
        << judged.control_upper;
  }
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

TEST(CanBePart, NotWhereAShareOfMoreThanOneMayBe) {
  const RoundTimes whole = Same(kAFewRounds, 10);
  EXPECT_TRUE(CanBePart(Same(kAFewRounds, 4), whole));
  EXPECT_TRUE(CanBePart(whole, whole));
  EXPECT_FALSE(CanBePart(Same(kAFewRounds, 10.1), whole));
  // A share of 0.5 in most rounds, and of 2 in so many that it may be the median.
  RoundTimes part = Same(kAFewRounds, 5);
  part[7] = 20;
  EXPECT_TRUE(CanBePart(part, whole)) << "a stall";
  for (size_t round = 0; round < part.size(); round += 5) part[round] = part[round + 1] = 20;
  EXPECT_FALSE(CanBePart(part, whole));
}

TEST(CanBePart, FewRoundsMayNotExceedTheWhole) {
  EXPECT_TRUE(CanBePart({4, 5, 10}, {10, 10, 10}));
  EXPECT_FALSE(CanBePart({4, 5, 11}, {10, 10, 10}));
}

// Shares are small where every round is slow that has a slow part.
TEST(CanBePart, NotWhereItsMedianIsLarger) {
  RoundTimes part = Same(kAFewRounds, 1), whole = Same(kAFewRounds, 2);
  for (size_t round = 0; round < 11; ++round) part[round] = 90, whole[round] = 100;
  EXPECT_TRUE(CanBePart(part, whole));
  for (size_t round = 0; round < 11; ++round) whole[round] = 100 - 80.0 * (round % 2);
  EXPECT_FALSE(CanBePart(part, whole));
}

// A test of validity, of rounds as the engine runs and looks at them, on machines with noise.
class OnAMachine : public ::testing::TestWithParam<MachineNoise> {
 protected:
  // The second of two variants takes `ratio` times as long as the first.
  PairedTimes Compare(double ratio, uint64_t seed) const {
    SimulatedMachine machine(GetParam(), seed);
    PairedRounds rounds;
    PairedTimes times;
    const std::vector<size_t> looks = Looks(CompareRequest().rounds, CompareRequest().max_rounds);
    for (const size_t look : looks) {
      while (rounds.rounds() < look) {
        const auto run = [&](std::span<const RoundPass> passes, size_t round) {
          std::vector<double> ms;
          for (const RoundPass& pass : passes) {
            ms.push_back(machine.Pass(pass.variant == 1 ? ratio : 1, /*weights=*/pass.variant,
                                      /*bytes=*/round % 4));
          }
          return ms;
        };
        EXPECT_TRUE(rounds.Run(3, run).ok());
      }
      times = CompareTimes(std::span(rounds.times()).first(2), rounds.times()[2], looks.size());
      if (times.settled()) break;
    }
    return times;
  }

  // Of kRuns comparisons the shares that come to each verdict.
  std::map<Verdict, double> Verdicts(double ratio) const {
    std::map<Verdict, double> verdicts;
    for (uint64_t seed = 1; seed <= kRuns; ++seed) {
      verdicts[Compare(ratio, seed).variants[1].verdict] += 1.0 / kRuns;
    }
    return verdicts;
  }

  static constexpr int kRuns = 200;
};

TEST_P(OnAMachine, ADifferenceOfATwentiethIsFound) {
  auto verdicts = Verdicts(1.05);
  EXPECT_GE(verdicts[Verdict::kSlower], 0.8);
  EXPECT_LE(verdicts[Verdict::kFaster] + verdicts[Verdict::kEquivalent], 0.05);
}

TEST_P(OnAMachine, AVariantIsNotFoundDifferentFromItself) {
  auto verdicts = Verdicts(1);
  EXPECT_LE(verdicts[Verdict::kFaster] + verdicts[Verdict::kSlower], 0.05);
  EXPECT_GE(verdicts[Verdict::kEquivalent], 0.8);
}

INSTANTIATE_TEST_SUITE_P(Disturbed, OnAMachine, ::testing::ValuesIn(kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

// Most of a pass, timed in the pass itself and in passes a second later, which may contradict it.
TEST_P(OnAMachine, APartThatIsToldIsNoLargerThanItsWhole) {
  int contradictions = 0;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    SimulatedMachine machine(GetParam(), seed);
    RoundTimes whole, within, later;
    for (int round = 0; round < kAFewRounds; ++round) {
      whole.push_back(machine.Pass(10, /*weights=*/0, /*bytes=*/0));
      within.push_back(0.9 * whole.back());
    }
    machine.Idle(1000);
    for (int round = 0; round < kAFewRounds; ++round) {
      later.push_back(0.9 * machine.Pass(10, /*weights=*/0, /*bytes=*/0));
    }
    EXPECT_TRUE(CanBePart(within, whole)) << seed;
    const bool contradicts = QuartilesOf(later).median > QuartilesOf(whole).median;
    EXPECT_FALSE(contradicts && CanBePart(later, whole)) << seed;
    contradictions += contradicts;
  }
  EXPECT_GT(contradictions, 0);
}

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
