#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace fovea {
namespace {

constexpr int kResamples = 1000;
constexpr uint64_t kSeed = 1;

double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

// Reorders `values`, which are not empty.
double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

// How many neighbouring measurements are autocorrelated.
size_t BlockLength(const std::vector<double>& series, double median) {
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

}  // namespace

Quartiles QuartilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {Quantile(values, 0.25), Quantile(values, 0.5), Quantile(values, 0.75)};
}

std::optional<Estimate> EstimateMedian(const std::vector<double>& series) {
  const size_t size = series.size();
  if (size < kLeastSeries) return std::nullopt;
  std::vector<double> sample = series;
  const double median = Median(sample);
  const size_t length = BlockLength(series, median);

  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<size_t> start(0, size - 1);
  std::vector<double> medians;
  for (int i = 0; i < kResamples; ++i) {
    sample.clear();
    while (sample.size() < size) {
      const size_t block = start(random);
      for (size_t j = 0; j < length && sample.size() < size; ++j) {
        sample.push_back(series[(block + j) % size]);
      }
    }
    medians.push_back(Median(sample));
  }
  std::sort(medians.begin(), medians.end());
  const double outside = (1 - kConfidence) / 2;
  return Estimate{median, Quantile(medians, outside), Quantile(medians, 1 - outside),
                  size / length};
}

}  // namespace fovea
