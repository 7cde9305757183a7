#include "server/compare/measure/power_law.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "base/statistics.h"

namespace fovea {
namespace {

constexpr size_t kLeastPlaces = 3;
constexpr int kResamples = 1000;
constexpr uint64_t kSeed = 1;

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

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
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
    y.push_back(std::log(MedianOf(point.values)));
  }
  if (places.size() < kLeastPlaces) return std::nullopt;
  const Line line = FitLine(x, y);
  PowerLaw law{.exponent = line.slope, .lower = line.slope, .upper = line.slope};
  for (size_t i = 0; i < x.size(); ++i) {
    const double off = std::abs(y[i] - (line.intercept + line.slope * x[i]));
    law.worst_ratio = std::max(law.worst_ratio, std::exp(off));
  }
  if (how == Measured::kExactly) return law;
  const auto has_few = [](const MeasuredPoint& point) {
    return point.values.size() < kLeastSeries;
  };
  if (std::any_of(points.begin(), points.end(), has_few)) {
    law.upper = std::numeric_limits<double>::infinity();
    law.lower = -law.upper;
    return law;
  }
  std::mt19937_64 random(kSeed);
  std::vector<double> slopes;
  for (int resample = 0; resample < kResamples; ++resample) {
    for (size_t i = 0; i < points.size(); ++i) {
      const std::vector<double>& values = points[i].values;
      std::uniform_int_distribution<size_t> which(0, values.size() - 1);
      std::vector<double> drawn(values.size());
      std::generate(drawn.begin(), drawn.end(), [&] { return values[which(random)]; });
      y[i] = std::log(MedianOf(std::move(drawn)));
    }
    slopes.push_back(FitLine(x, y).slope);
  }
  std::sort(slopes.begin(), slopes.end());
  const auto rank = [&](double share) {
    return slopes[static_cast<size_t>(std::lround(share * (kResamples - 1)))];
  };
  law.lower = rank((1 - kConfidence) / 2);
  law.upper = rank((1 + kConfidence) / 2);
  return law;
}

}  // namespace fovea
