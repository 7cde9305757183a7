#include "server/compare/measure/power_law.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/statistics.h"

namespace fovea {
namespace {

constexpr size_t kLeastPlaces = 3;

struct Line {
  double slope = 0, intercept = 0;
};

Line FitLine(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / count;
    mean_y += y[i] / count;
  }
  double covariance = 0, variance = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    covariance += (x[i] - mean_x) * (y[i] - mean_y);
    variance += (x[i] - mean_x) * (x[i] - mean_x);
  }
  const double slope = covariance / variance;
  return {slope, mean_y - slope * mean_x};
}

// Of each point, over the rounds at `places`.
std::vector<double> LogMedians(const std::vector<MeasuredPoint>& points,
                               const std::vector<size_t>& places) {
  std::vector<double> y, drawn(places.size());
  for (const MeasuredPoint& point : points) {
    for (size_t i = 0; i < places.size(); ++i) drawn[i] = point.values[places[i]];
    y.push_back(std::log(MedianOf(drawn)));
  }
  return y;
}

}  // namespace

std::optional<PowerLaw> FitPowerLaw(const std::vector<MeasuredPoint>& points, Measured how) {
  std::vector<double> x, y;
  std::set<double> places;
  for (const MeasuredPoint& point : points) {
    if (point.values.empty() || point.x <= 0) return std::nullopt;
    // The smallest too: any of them may be the median of a resample.
    if (*std::min_element(point.values.begin(), point.values.end()) <= 0) return std::nullopt;
    places.insert(point.x);
    x.push_back(std::log(point.x));
    std::vector<double> values = point.values;
    y.push_back(std::log(MedianOf(values)));
  }
  if (places.size() < kLeastPlaces) return std::nullopt;
  const Line line = FitLine(x, y);
  PowerLaw law{.exponent = line.slope, .lower = line.slope, .upper = line.slope};
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = std::abs(y[i] - (line.intercept + line.slope * x[i]));
    law.worst_ratio = std::max(law.worst_ratio, std::exp(off));
  }
  if (how == Measured::kExactly) return law;
  size_t rounds = points[0].values.size();
  for (const MeasuredPoint& point : points) rounds = std::min(rounds, point.values.size());
  if (rounds < kLeastSeries) {
    law.upper = std::numeric_limits<double>::infinity();
    law.lower = -law.upper;
    return law;
  }
  std::vector<double> slopes;  // of the rounds
  for (size_t round = 0; round < rounds; ++round) {
    slopes.push_back(FitLine(x, LogMedians(points, {round})).slope);
  }
  const size_t block = BlockLength(slopes);
  const Interval interval = BootstrapBlocks(
      rounds, block, ExpandedConfidence(rounds / block),
      [&](const std::vector<size_t>& of) { return FitLine(x, LogMedians(points, of)).slope; });
  law.lower = interval.lower;
  law.upper = interval.upper;
  return law;
}

}  // namespace fovea
