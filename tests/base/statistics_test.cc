#include "base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

// How often the interval holds the true median, which is 0, in `count` series of `size`.
double Coverage(const std::function<double(double before, std::mt19937_64&)>& next, int count = 200,
                size_t size = 100, double confidence = kConfidence) {
  int held = 0;
  for (int seed = 1; seed <= count; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::vector<double> series;
    double value = 0;
    for (size_t i = 0; i < 100 + size; ++i) {
      value = next(value, random);
      if (i >= 100) series.push_back(value);  // the first hundred forget where it started
    }
    const Estimate estimate = *EstimateMedian(series, confidence);
    held += estimate.lower <= 0 && 0 <= estimate.upper;
  }
  return static_cast<double>(held) / count;
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

// The bounds are one standard deviation (0.7 % and 0.3 %) below the nominal coverage.
TEST(EstimateMedian, OfTheFewestMeasurementsHoldsAsOftenAsItSays) {
  const auto normal = [](double, std::mt19937_64& random) {
    return std::normal_distribution(0.0, 1.0)(random);
  };
  EXPECT_GE(Coverage(normal, 1000, kLeastSeries), 0.943);
  EXPECT_GE(Coverage(normal, 1000, kLeastSeries, 0.99), 0.987);
}

// Each value keeps half of the one before. Blocks fall short of 95 % there, but little.
TEST(EstimateMedian, FallsLittleShortWhereNoiseLasts) {
  EXPECT_GE(Coverage([](double before, std::mt19937_64& random) {
              return 0.5 * before + std::normal_distribution(0.0, 1.0)(random);
            }),
            0.85);
}

// Of tables of Student's distribution: 3.1824, 2.2622 and 1.9842 at 97.5 %, times sqrt(n / (n -
// 1)).
TEST(ExpandedConfidence, IsOfStudentsQuantiles) {
  EXPECT_NEAR(ExpandedConfidence(4), std::erf(3.6747 / std::sqrt(2.0)), 1e-5);
  EXPECT_NEAR(ExpandedConfidence(10), std::erf(2.3846 / std::sqrt(2.0)), 1e-5);
  EXPECT_NEAR(ExpandedConfidence(100), std::erf(1.9942 / std::sqrt(2.0)), 1e-5);
  EXPECT_NEAR(ExpandedConfidence(1'000'000), kConfidence, 1e-5);
  // Student's quantiles: 63.657, 3.2498 and 2.8609 at 99.5 %; 7.4533 and 3.1737 at 99.75 %.
  EXPECT_NEAR(ExpandedConfidence(2, 0.99), 1, 1e-5);
  EXPECT_NEAR(ExpandedConfidence(10, 0.99), std::erf(3.4256 / std::sqrt(2.0)), 1e-5);
  EXPECT_NEAR(ExpandedConfidence(20, 0.99), std::erf(2.9352 / std::sqrt(2.0)), 1e-5);
  EXPECT_NEAR(ExpandedConfidence(4, 0.995), 1, 1e-5);
  EXPECT_NEAR(ExpandedConfidence(20, 0.995), std::erf(3.2562 / std::sqrt(2.0)), 1e-5);
}

}  // namespace
}  // namespace fovea
