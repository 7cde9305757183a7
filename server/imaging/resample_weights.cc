#include "server/imaging/resample_weights.h"

#include <algorithm>
#include <cmath>

namespace fovea {
namespace {

// Half the width of the filter at scale 1.
double Support(Interpolation interpolation) {
  return interpolation == Interpolation::kBilinear ? 1.0 : 2.0;
}

// Keys' cubic convolution kernel with a = -0.5.
double Bicubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0.0;
}

double Bilinear(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

int32_t ToFixedPoint(double weight) {
  return static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kWeightBits));
}

}  // namespace

AxisWeights::AxisWeights(const SourceAxis& from, int64_t to, int64_t first, int64_t outputs,
                         Interpolation interpolation) {
  const auto filter = interpolation == Interpolation::kBilinear ? Bilinear : Bicubic;
  const double scale = from.length / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);  // the filter is never narrower than a sample
  const double support = Support(interpolation) * stretch;
  const double inverse_stretch = 1.0 / stretch;
  max_count_ = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  ranges_.resize(outputs);
  weights_.resize(outputs * max_count_);

  std::vector<double> exact(max_count_);
  for (int64_t i = 0; i < outputs; ++i) {
    const double center = from.begin + (static_cast<double>(first + i) + 0.5) * scale;
    const int64_t start = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + support + 0.5), from.samples);
    const int64_t count = end - start;
    double sum = 0.0;
    for (int64_t t = 0; t < count; ++t) {
      exact[t] = filter((static_cast<double>(start + t) - center + 0.5) * inverse_stretch);
      sum += exact[t];
    }
    ranges_[i] = {start, count};
    for (int64_t t = 0; t < count; ++t) {
      weights_[i * max_count_ + t] = ToFixedPoint(sum != 0.0 ? exact[t] / sum : exact[t]);
    }
  }
}

}  // namespace fovea
