#include "server/compare/measure/power_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "server/compare/measure/paired_times.h"
#include "server/core/sweep.h"
#include "tests/server/compare/simulated_machine.h"

namespace fovea {
namespace {

// 0.5 * x^exponent at five places, in rounds that noise moves by up to `noise` of it.
std::vector<MeasuredPoint> Points(double exponent, double noise, int rounds = 30) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> factor(1 - noise, 1 + noise);
  std::vector<MeasuredPoint> points;
  for (const double x : {64.0, 128.0, 256.0, 512.0, 1024.0}) {
    MeasuredPoint point{.x = x};
    for (int round = 0; round < rounds; ++round) {
      point.values.push_back(0.5 * std::pow(x, exponent) * factor(random));
    }
    points.push_back(point);
  }
  return points;
}

TEST(FitPowerLaw, FindsTheExponent) {
  for (const double exponent : {0.0, 1.0, 1.5, 2.0, -1.0}) {
    const auto law = FitPowerLaw(Points(exponent, 0));
    ASSERT_TRUE(law.has_value());
    EXPECT_NEAR(law->exponent, exponent, 1e-12);
    EXPECT_NEAR(law->lower, exponent, 1e-12);
    EXPECT_NEAR(law->upper, exponent, 1e-12);
    EXPECT_NEAR(law->worst_ratio, 1, 1e-9);
  }
}

TEST(FitPowerLaw, NoiseWidensTheInterval) {
  const auto law = FitPowerLaw(Points(2, 0.2));
  ASSERT_TRUE(law.has_value());
  EXPECT_LT(law->lower, 2);
  EXPECT_GT(law->upper, 2);
  EXPECT_LT(law->upper - law->lower, 0.2);
  EXPECT_GT(law->upper - law->lower, 0.005);
  EXPECT_LE(law->lower, law->exponent);
  EXPECT_GE(law->upper, law->exponent);
  const auto more = FitPowerLaw(Points(2, 0.2, 300));
  EXPECT_LT(more->upper - more->lower, law->upper - law->lower);
}

// How often the interval holds the exponent, in 300 sweeps with noise that is skewed as times' is,
// each round's keeping a share of that of the round before.
double Coverage(int rounds, double keep) {
  int held = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(0, 0.2);
    std::vector<MeasuredPoint> points;
    for (const double x : {64.0, 256.0, 1024.0}) {
      MeasuredPoint point{.x = x};
      double log_factor = noise(random) / std::sqrt(1 - keep * keep);
      for (int i = 0; i < rounds; ++i) {
        point.values.push_back(std::pow(x, 1.5) * std::exp(log_factor));
        log_factor = keep * log_factor + noise(random);
      }
      points.push_back(point);
    }
    const PowerLaw law = *FitPowerLaw(points);
    held += law.lower <= 1.5 && 1.5 <= law.upper;
  }
  return held / 300.0;
}

// Of 300 intervals at 95 % so many hold it that two standard deviations (1.3 % each) are left.
TEST(FitPowerLaw, TheIntervalHoldsTheExponentAsOftenAsItSays) {
  EXPECT_GE(Coverage(20, 0), 0.95 - 0.025);
  EXPECT_GE(Coverage(20, 0.3), 0.95 - 0.025);
  EXPECT_GE(Coverage(40, 0.3), 0.95 - 0.025);
}

// A test of validity, of as many rounds as a sweep has, on machines with noise.
class SweepOnAMachine : public testing::TestWithParam<MachineNoise> {
 protected:
  static constexpr int kRuns = 200;
  static constexpr double kPlaces[] = {1, 2, 4, 8};

  struct Shares {
    double missed = 0;  // of kRuns sweeps, those whose interval does not hold the exponent
    double grew = 0;    // and those whose interval lies above 0
  };
  // The last point takes `growth` times as long as the first one.
  static Shares Run(double growth) {
    Shares shares;
    const double exponent = std::log(growth) / std::log(std::end(kPlaces)[-1]);
    for (uint64_t seed = 1; seed <= kRuns; ++seed) {
      SimulatedMachine machine(GetParam(), seed);
      PairedRounds rounds;
      while (rounds.rounds() < static_cast<size_t>(SweepRequest().rounds)) {
        const auto run = [&](std::span<const RoundPass> passes, size_t) {
          std::vector<double> ms;
          for (const RoundPass& pass : passes) {
            const double units = std::pow(kPlaces[pass.variant], exponent);
            ms.push_back(machine.Pass(units, pass.variant, /*bytes=*/0));
          }
          return ms;
        };
        EXPECT_TRUE(rounds.Run(std::size(kPlaces), run).ok());
      }
      std::vector<MeasuredPoint> points;
      for (size_t i = 0; i < std::size(kPlaces); ++i) {
        points.push_back({.x = kPlaces[i], .values = rounds.times()[i]});
      }
      const PowerLaw law = *FitPowerLaw(points);
      shares.missed += 1.0 / kRuns * (exponent < law.lower || law.upper < exponent);
      shares.grew += 1.0 / kRuns * (law.lower > 0);
    }
    return shares;
  }
};

TEST_P(SweepOnAMachine, GrowthIsSeldomFoundWhereThereIsNone) { EXPECT_LE(Run(1).missed, 0.05); }

TEST_P(SweepOnAMachine, GrowthByATwentiethIsFound) {
  const Shares shares = Run(1.05);
  EXPECT_GE(shares.grew, 0.8);
  EXPECT_LE(shares.missed, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Disturbed, SweepOnAMachine, testing::ValuesIn(kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

TEST(FitPowerLaw, OfAFewRoundsThereIsNoInterval) {
  for (const int rounds : {1, 2, 19}) {
    const auto law = FitPowerLaw(Points(2, 0.1, rounds));
    ASSERT_TRUE(law.has_value());
    EXPECT_NEAR(law->exponent, 2, 0.1);
    EXPECT_TRUE(std::isinf(law->lower) && law->lower < 0 && std::isinf(law->upper)) << rounds;
  }
  std::vector<MeasuredPoint> points = Points(2, 0.1, 20);
  EXPECT_TRUE(std::isfinite(FitPowerLaw(points)->upper));
  points[3].values.pop_back();
  EXPECT_TRUE(std::isinf(FitPowerLaw(points)->upper)) << "one of the points";
  const auto exact = FitPowerLaw(Points(2, 0, 1), Measured::kExactly);
  EXPECT_EQ(exact->lower, exact->exponent);
  EXPECT_EQ(exact->upper, exact->exponent);
}

TEST(FitPowerLaw, SaysHowFarPointsAreFromALine) {
  std::vector<MeasuredPoint> points = Points(1, 0);
  for (double& value : points[2].values) value *= 2;
  EXPECT_GT(FitPowerLaw(points)->worst_ratio, 1.5);
}

TEST(FitPowerLaw, NeedsThreePlacesAndValuesAboveZero) {
  std::vector<MeasuredPoint> points = Points(1, 0);
  points[4].x = points[3].x = points[2].x = points[1].x;
  EXPECT_FALSE(FitPowerLaw(points).has_value());
  points = Points(1, 0);
  points[0].values[0] = 0;
  EXPECT_FALSE(FitPowerLaw(points).has_value());
  points = Points(1, 0);
  points[0].values.clear();
  EXPECT_FALSE(FitPowerLaw(points).has_value());
  EXPECT_FALSE(FitPowerLaw({}).has_value());
}

}  // namespace
}  // namespace fovea
