// How a cost grows: the exponent of a power law through measured points. Pure.
#pragma once

#include <optional>
#include <vector>

namespace fovea {

// One point of a curve: a value for each round, or one for all. Rounds are those of the other
// points.
struct MeasuredPoint {
  double x = 0;  // above zero
  std::vector<double> values;
};

// Of value = factor * x^exponent.
struct PowerLaw {
  double exponent = 0;
  // The interval of the exponent, at kConfidence. All numbers: there are too few rounds for one.
  double lower = 0, upper = 0;
  // The largest ratio by which a point's median lies above or below the line, at least 1: of a cost
  // that follows no power law it is far above.
  double worst_ratio = 1;
};

enum class Measured {
  kWithNoise,  // the bootstrap tells the interval; fewer than kLeastSeries rounds give none
  kExactly,    // the interval is the exponent alone
};

// Least squares on logarithms of the points' medians. The interval is the expanded percentile
// interval (ExpandedConfidence) of a block bootstrap of the rounds (BootstrapBlocks), of all points
// alike, so that what slows a whole round down cancels: it says how far noise moves the exponent,
// not how far the cost is from a power law.
//
// None for fewer than three places that differ, or where a median is not above zero.
std::optional<PowerLaw> FitPowerLaw(const std::vector<MeasuredPoint>& points,
                                    Measured how = Measured::kWithNoise);

}  // namespace fovea
