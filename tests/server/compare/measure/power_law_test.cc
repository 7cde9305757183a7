#include "server/compare/measure/power_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

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

// How often the interval holds the exponent, in 300 sweeps with noise that is skewed as times' is.
double Coverage(int rounds) {
  int held = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> factor(0, 0.2);
    std::vector<MeasuredPoint> points;
    for (const double x : {64.0, 256.0, 1024.0}) {
      MeasuredPoint point{.x = x};
      for (int i = 0; i < rounds; ++i) point.values.push_back(std::pow(x, 1.5) * factor(random));
      points.push_back(point);
    }
    const PowerLaw law = *FitPowerLaw(points);
    held += law.lower <= 1.5 && 1.5 <= law.upper;
  }
  return held / 300.0;
}

// So much that three standard deviations (1.3 % each) of 300 intervals at 95 % are left.
TEST(FitPowerLaw, TheIntervalHoldsTheExponentAsOftenAsItSays) {
  EXPECT_NEAR(Coverage(20), 0.95, 0.038);
  EXPECT_NEAR(Coverage(40), 0.95, 0.038);
}

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
