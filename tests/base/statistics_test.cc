#include "base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace fovea {
namespace {

TEST(Quartiles, OfNothingAreZero) { EXPECT_EQ(QuartilesOf({}), (Quartiles{0, 0, 0})); }

TEST(Quartiles, OfOneMeasurementAreThatMeasurement) {
  EXPECT_EQ(QuartilesOf({3}), (Quartiles{3, 3, 3}));
}

// numpy.percentile([1, 2, 3, 4], [25, 50, 75]) = [1.75, 2.5, 3.25]
TEST(Quartiles, AreInterpolatedBetweenMeasurementsWhateverTheirOrder) {
  EXPECT_EQ(QuartilesOf({4, 1, 3, 2}), (Quartiles{1.75, 2.5, 3.25}));
}

TEST(Quartiles, DoNotMoveWithAnOutlier) {
  const Quartiles calm = QuartilesOf({10, 11, 12, 13, 14});
  const Quartiles disturbed = QuartilesOf({10, 11, 12, 13, 5000});
  EXPECT_EQ(calm, disturbed);
}

// 1 to 25 in an order without runs. The medians of resamples have a distribution that can be
// counted: P(median <= j) is the probability of 13 or more successes in 25 trials at j/25, which
// passes 2.5 % at 8 and 97.5 % at 18. (18 of 25 is also where the textbook's interval of order
// statistics ends.)
TEST(EstimateMedian, OfKnownDataHasTheIntervalThatCanBeCounted) {
  std::vector<double> series;
  for (int i = 0; i < 25; ++i) series.push_back((i * 7) % 25 + 1);
  EXPECT_EQ(EstimateMedian(series), (Estimate{13, 8, 18, 25}));
}

TEST(EstimateMedian, OfASeriesWithoutNoiseIsThatValue) {
  EXPECT_EQ(EstimateMedian(std::vector<double>(30, 1.5)), (Estimate{1.5, 1.5, 1.5, 30}));
}

TEST(EstimateMedian, OfAFewMeasurementsIsNone) {
  EXPECT_EQ(EstimateMedian(std::vector<double>(19, 1.0)), std::nullopt);
  EXPECT_NE(EstimateMedian(std::vector<double>(20, 1.0)), std::nullopt);
}

TEST(EstimateMedian, OfTheSameSeriesIsTheSame) {
  std::mt19937_64 random(7);
  std::vector<double> series(50);
  for (double& value : series) value = std::normal_distribution(1.0, 0.1)(random);
  EXPECT_EQ(EstimateMedian(series), EstimateMedian(series));
}

// Forty values, each measured ten times, are forty measurements and not four hundred.
TEST(EstimateMedian, TakesAutocorrelatedMeasurementsForOne) {
  std::mt19937_64 random(3);
  std::vector<double> together;
  for (int i = 0; i < 40; ++i) {
    together.insert(together.end(), 10, std::normal_distribution(1.0, 0.1)(random));
  }
  std::vector<double> apart = together;
  std::shuffle(apart.begin(), apart.end(), random);
  const Estimate wide = *EstimateMedian(together), narrow = *EstimateMedian(apart);
  EXPECT_EQ(wide.value, narrow.value);
  EXPECT_GT(wide.upper - wide.lower,
            2 * (narrow.upper - narrow.lower));  // sqrt(10), if all is well
  EXPECT_LE(wide.blocks, 40u);
  EXPECT_GE(narrow.blocks, 100u);
}

// How often the interval holds the true median, which is 0, in 200 series of 100.
double Coverage(const std::function<double(double before, std::mt19937_64&)>& next) {
  int held = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<double> series;
    double value = 0;
    for (int i = 0; i < 200; ++i) {
      value = next(value, random);
      if (i >= 100) series.push_back(value);  // the first hundred forget where it started
    }
    const Estimate estimate = *EstimateMedian(series);
    held += estimate.lower <= 0 && 0 <= estimate.upper;
  }
  return held / 200.0;
}

// Of 200 intervals at 95 % so many hold it that three standard deviations (1.5 % each) are left.
TEST(EstimateMedian, HoldsTheTrueMedianAsOftenAsItSays) {
  EXPECT_NEAR(Coverage([](double, std::mt19937_64& random) {
                return std::normal_distribution(0.0, 1.0)(random);
              }),
              0.95, 0.046);
  EXPECT_NEAR(Coverage([](double, std::mt19937_64& random) {  // heavier tails than that are rare
                return std::cauchy_distribution(0.0, 1.0)(random);
              }),
              0.95, 0.046);
}

// Each value keeps half of the one before. Blocks fall short of 95 % there, but little.
TEST(EstimateMedian, FallsLittleShortWhereNoiseLasts) {
  EXPECT_GE(Coverage([](double before, std::mt19937_64& random) {
              return 0.5 * before + std::normal_distribution(0.0, 1.0)(random);
            }),
            0.85);
}

}  // namespace
}  // namespace fovea
