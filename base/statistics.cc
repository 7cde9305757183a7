#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>

namespace fovea {
namespace {

constexpr double kLeastResamples = 1000;
constexpr double kResamplesOutside = 5;  // of an interval, unless it has fewer in kMostPlaces
constexpr double kMostPlaces = 4e6;      // in all resamples beyond kLeastResamples
constexpr uint64_t kSeed = 1;

double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

// The share of Student's distribution within sqrt(freedom) * tan(angle) of its middle (Abramowitz
// and Stegun, 26.7.3 and 26.7.4).
double StudentsShare(double angle, size_t freedom) {
  const double cosine = std::cos(angle);
  const size_t odd = freedom % 2;
  double sum = 0, term = odd == 1 ? cosine : 1;
  for (size_t i = 2 + odd; i <= freedom; i += 2) {
    sum += term;
    term *= cosine * cosine * static_cast<double>(i - 1) / static_cast<double>(i);
  }
  sum *= std::sin(angle);
  return odd == 1 ? (angle + sum) * 2 / std::numbers::pi : sum;
}

}  // namespace

Quartiles QuartilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {Quantile(values, 0.25), Quantile(values, 0.5), Quantile(values, 0.75)};
}

double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

size_t BlockLength(const std::vector<double>& series) {
  std::vector<double> sorted = series;
  const double median = MedianOf(sorted);
  const auto sign = [&](size_t i) { return (series[i] > median) - (series[i] < median); };
  int together = 0, nonzero = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    nonzero += sign(i) * sign(i);
    if (i > 0) together += sign(i) * sign(i - 1);
  }
  if (together <= 0) return 1;
  const double correlation = static_cast<double>(together) / nonzero;  // below 1: a pair is missing
  const double length = std::cbrt(1.5 * static_cast<double>(series.size())) *
                        std::pow(2 * correlation / (1 - correlation * correlation), 2.0 / 3);
  return static_cast<size_t>(
      std::clamp(std::ceil(length), 1.0, std::floor(static_cast<double>(series.size()) / 4)));
}

Interval BootstrapBlocks(size_t size, size_t block, double confidence,
                         const std::function<double(const std::vector<size_t>& places)>& estimate) {
  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<size_t> start(0, size - 1);
  std::vector<size_t> places;
  std::vector<double> estimates;
  const double wanted =
      std::min(kResamplesOutside / (1 - confidence), kMostPlaces / static_cast<double>(size));
  const auto resamples = static_cast<int>(std::max(kLeastResamples, wanted));
  for (int i = 0; i < resamples; ++i) {
    places.clear();
    while (places.size() < size) {
      size_t place = start(random);
      for (size_t j = 0; j < block && places.size() < size; ++j) {
        places.push_back(place);
        if (++place == size) place = 0;
      }
    }
    estimates.push_back(estimate(places));
  }
  std::sort(estimates.begin(), estimates.end());
  const double outside = (1 - confidence) / 2;
  return {Quantile(estimates, outside), Quantile(estimates, 1 - outside)};
}

double ExpandedConfidence(size_t blocks, double confidence) {
  const size_t freedom = blocks - 1;
  double below = 0, above = std::numbers::pi / 2;
  for (int i = 0; i < std::numeric_limits<double>::digits; ++i) {
    const double angle = std::midpoint(below, above);
    (StudentsShare(angle, freedom) < confidence ? below : above) = angle;
  }
  // sqrt(n / (n - 1)) times the quantile, sqrt(n - 1) * tan(angle).
  const double reach = std::sqrt(static_cast<double>(blocks)) * std::tan(below);
  return std::erf(reach / std::numbers::sqrt2);
}

std::optional<Estimate> EstimateMedian(const std::vector<double>& series, double confidence) {
  if (series.size() < kLeastSeries) return std::nullopt;
  const size_t length = BlockLength(series);
  std::vector<double> sample = series;
  const double median = MedianOf(sample);
  const size_t blocks = series.size() / length;
  const Interval interval =
      BootstrapBlocks(series.size(), length, ExpandedConfidence(blocks, confidence),
                      [&](const std::vector<size_t>& places) {
                        for (size_t i = 0; i < places.size(); ++i) sample[i] = series[places[i]];
                        return MedianOf(sample);
                      });
  return Estimate{median, interval.lower, interval.upper, blocks};
}

}  // namespace fovea
