// The normal distribution function in 32 segments, as what looks a segment's polynomial up in a
// register or two computes GELU with. Interpolated at Chebyshev's nodes when it is compiled.
#pragma once
#include <array>
#include <cstddef>

namespace fovea::kernels::simd {

// Phi(u) - 1/2 for 0 <= u <= end in segments whose centres lie end / 31 apart, the first at 0:
// polynomials of u's distance from a segment's centre in such steps. 1/2 exactly at the end.
template <size_t kDegree>
struct NormalTable {
  static constexpr size_t kSegments = 32;
  float end = 0;
  float steps = 0;  // to 1
  alignas(64) std::array<std::array<float, kSegments>, kDegree + 1> coefficients = {};
};

namespace normal_table {

constexpr double Exp(double x) {
  double sum = 1, term = 1;
  for (int n = 1; n < 20; ++n) sum += term *= x / 64 / n;
  for (int i = 0; i < 6; ++i) sum *= sum;
  return sum;
}

// Phi(x) - 1/2 (Abramowitz and Stegun, 26.2.11).
constexpr double FromMiddle(double x) {
  double sum = 0, term = x;
  for (int n = 1; n < 200; n += 2) {
    sum += term;
    term *= x * x / (n + 2);
  }
  return sum * Exp(-x * x / 2) * 0.39894228040143267794;
}

}  // namespace normal_table

// `nodes`: Chebyshev's of that degree.
template <size_t kDegree>
constexpr NormalTable<kDegree> MakeNormalTable(double end,
                                               const std::array<double, kDegree + 1>& nodes) {
  constexpr size_t kCount = kDegree + 1;
  NormalTable<kDegree> table;
  const double step = end / (table.kSegments - 1);
  table.end = static_cast<float>(end);
  table.steps = static_cast<float>(1 / step);
  for (size_t segment = 0; segment < table.kSegments; ++segment) {
    // Newton's divided differences, and from them the powers' coefficients.
    std::array<double, kCount> at = {}, difference = {}, power = {};
    for (size_t i = 0; i < kCount; ++i) {
      at[i] = nodes[i] / 2;
      difference[i] = normal_table::FromMiddle((static_cast<double>(segment) + at[i]) * step);
    }
    for (size_t order = 1; order < kCount; ++order) {
      for (size_t i = kCount - 1; i >= order; --i) {
        difference[i] = (difference[i] - difference[i - 1]) / (at[i] - at[i - order]);
      }
    }
    for (size_t i = kCount; i-- > 0;) {
      for (size_t j = kCount - 1; j > 0; --j) power[j] = power[j - 1] - at[i] * power[j];
      power[0] = difference[i] - at[i] * power[0];
    }
    for (size_t j = 0; j < kCount; ++j) {
      table.coefficients[j][segment] = static_cast<float>(power[j]);
    }
  }
  table.coefficients[0].back() = 0.5f;
  return table;
}

// Errs by less than 1e-7.
inline constexpr NormalTable<4> kNormalForFp32 = MakeNormalTable<4>(
    5.25,
    {-0.95105651629515353, -0.58778525229247314, 0, 0.58778525229247314, 0.95105651629515353});
// By less than 1e-5.
inline constexpr NormalTable<2> kNormalForBf16 =
    MakeNormalTable<2>(4.5, {-0.86602540378443865, 0, 0.86602540378443865});

}  // namespace fovea::kernels::simd
