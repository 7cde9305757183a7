#include "client/cpp/cli/statistics.h"

#include <algorithm>
#include <cmath>

namespace fovea::client {
namespace {

double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

}  // namespace

Quartiles QuartilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {Quantile(values, 0.25), Quantile(values, 0.5), Quantile(values, 0.75)};
}

}  // namespace fovea::client
