// How far rounding may take a result from what is exact, worked out beside it in fp64: the bounds
// of the tests of numbers. They follow from the arithmetic alone, and so hold on any machine.
//
// To first order: each rounding moves the result by its size times a derivative. The roundings
// are taken as independent, so that together they stay under
//   lambda * sqrt(sum of the squares of what each may move),
// which lambda = 4 makes all but certain (Hoeffding's inequality). A sum of n products in precision
// u, for example, errs by at most lambda * sqrt(n) * u * sum |a||b|: Higham and Mary, A New
// Approach to Probabilistic Rounding Error Analysis, 2019, theorem 3.1.
//
// rounding.py has the same for Python.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>

namespace fovea::kernels {

inline constexpr double kLambda = 4.0;
inline constexpr double kMasked = -std::numeric_limits<double>::infinity();

// The unit roundoff of each kind of number in an operator.
struct Precision {
  double sums;   // of logits and sums: fp32 whatever the tensors' type, fp64 for fp64
  double type;   // of the tensors, to which outputs are rounded, and weights before they multiply
  double least;  // half the least positive number of that type
};

inline Precision PrecisionOf(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return {0x1p-24, 0x1p-8, 0x1p-127};
    case at::kHalf:
      return {0x1p-24, 0x1p-11, 0x1p-25};
    case at::kDouble:  // the truth errs as much
      return {0x1p-52, 0x1p-52, 0x1p-1022};
    default:
      return {0x1p-24, 0x1p-24, 0x1p-127};
  }
}

// A value in fp64 and, element by element, the sum of the squares of what roundings may have moved
// it by.
struct Rounded {
  at::Tensor value;
  at::Tensor squares;

  template <class Shape>
  Rounded Map(const Shape& shape) const {  // shape: tensor -> tensor of some of its elements
    return {shape(value), shape(squares)};
  }
  // What rounding may have moved the value by, all in all.
  at::Tensor Margin() const { return squares.sqrt() * kLambda; }
};

inline Rounded Exact(const at::Tensor& t) {
  return {t.to(at::kDouble), at::zeros({}, at::kDouble).expand(t.sizes())};
}

inline bool IsExact(const Rounded& x) { return x.squares.dim() == 0 || x.squares.stride(0) == 0; }

// x, rounded once more, in this precision.
inline Rounded Stored(const Rounded& x, double precision) {
  return {x.value, x.squares + (x.value * precision).square()};
}

// The matrix product a b. `terms`, which broadcasts to it: how many independent roundings a sum's
// are worth; as many as a has columns, unless it is given.
inline Rounded Product(const Rounded& a, const Rounded& b, double sums,
                       const at::Tensor& terms = {}) {
  at::Tensor squares = at::matmul(a.value.abs(), b.value.abs()).square_().mul_(sums * sums);
  squares.mul_(terms.defined() ? terms : at::full({}, a.value.size(-1), at::kDouble));
  if (!IsExact(a)) squares.add_(at::matmul(a.squares, b.value.square()));
  if (!IsExact(b)) squares.add_(at::matmul(a.value.square(), b.squares));
  return {at::matmul(a.value, b.value), squares};
}

// -inf, exactly, where the mask says so.
inline Rounded Masked(const Rounded& x, const at::Tensor& mask) {
  return {x.value.masked_fill(mask, kMasked), x.squares.masked_fill(mask, 0.0)};
}

inline Rounded Scaled(const Rounded& x, double scale, double sums) {
  const at::Tensor value = x.value * scale;
  // The scale is rounded, too.
  return {value, x.squares * (scale * scale) + (value * (2 * sums)).square()};
}

inline Rounded Sum(const Rounded& x, const Rounded& y, double sums) {
  const at::Tensor value = x.value + y.value;
  const at::Tensor squares = x.squares + y.squares + (value * sums).square();
  return {value, squares.masked_fill(value.eq(kMasked), 0.0)};
}

// Element by element.
inline Rounded Times(const Rounded& x, const Rounded& y, double sums) {
  const at::Tensor value = x.value * y.value;
  return {value,
          (value * sums).square() + x.squares * y.value.square() + x.value.square() * y.squares};
}

inline Rounded Concatenated(const Rounded& x, const Rounded& y, int64_t dim) {
  return {at::cat({x.value, y.value}, dim), at::cat({x.squares, y.squares}, dim)};
}

// Softmax of the last dimension, zero where all of a row is -inf.
inline at::Tensor SoftmaxOverFinite(const at::Tensor& logits) {
  const at::Tensor masked = logits.eq(kMasked).all(-1, /*keepdim=*/true);
  return at::where(masked, at::zeros({}, logits.options()), at::softmax(logits, -1));
}

// How many of a row's elements are equal to each: in fp32, as fp64's last place depends on where in
// a product's row an element stands.
inline at::Tensor CountOfEqual(const at::Tensor& t) {
  const at::Tensor rows = t.to(at::kFloat).contiguous();
  const at::Tensor sorted = std::get<0>(at::sort(rows, -1));
  return (at::searchsorted(sorted, rows, /*out_int32=*/false, /*right=*/true) -
          at::searchsorted(sorted, rows))
      .to(at::kDouble);
}

// sum_j p_j v_j with p the softmax of the logits: a logit moves it by p_j (v_j - the sum). `terms`:
// of the sum; as many as there are logits, unless most of them are masked.
inline Rounded SoftmaxAverage(const Rounded& logits, const Rounded& value, const Precision& p,
                              std::optional<int64_t> terms = std::nullopt) {
  const at::Tensor weights = SoftmaxOverFinite(logits.value);
  const at::Tensor below = logits.value.amax(-1, /*keepdim=*/true) - logits.value;
  // The exponent is a difference, multiplied; 2^x is good to two roundings, or to a thousandth of
  // what its result is rounded to.
  const double exponential = std::max(2 * p.sums, p.type * 0x1p-10);
  // Equal logits, as padding has them, are rounded alike: m errors that are one are worth m^2.
  const at::Tensor masked = logits.value.eq(kMasked);
  const at::Tensor alike = CountOfEqual(logits.value);
  const at::Tensor squares = weights.square() * alike;
  const at::Tensor moved =
      squares *
      (logits.squares + (below * (3 * p.sums) + exponential).square()).masked_fill(masked, 0.0);
  // So are the sums that equal weights are added to while these stay within a factor of two.
  const at::Tensor n = (alike - 1).masked_fill(masked, 0.0).sum(-1, /*keepdim=*/true) +
                       static_cast<double>(terms.value_or(weights.size(-1)));
  Rounded average = Product({weights, moved + squares * (p.type * p.type)}, value, p.sums, n);
  const at::Tensor total = moved.sum(-1, /*keepdim=*/true) + n * (p.sums * p.sums);
  average.squares.add_(average.value.square() * total)
      .sub_(2 * average.value * at::matmul(moved, value.value))
      .clamp_min_(0.0);
  return average;
}

inline Rounded Gelu(const Rounded& x, double sums) {
  const at::Tensor phi = 0.5 * at::erfc(x.value * -std::sqrt(0.5));
  const at::Tensor density = at::exp(-0.5 * x.value.square()) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
  // Kernels promise an absolute error of 2e-7 max(1, |x|), which is less than four roundings.
  return {x.value * phi, (phi + x.value * density).square() * x.squares +
                             (x.value.abs().clamp_min(1.0) * (4 * sums)).square()};
}

inline Rounded Relu(const Rounded& x) {
  const at::Tensor value = at::where(x.value.lt(0), at::zeros({}, x.value.options()), x.value);
  return {value, x.squares.masked_fill((x.value + x.Margin()).lt(0), 0.0)};
}

// scale * relu(x)^2 + bias.
inline Rounded StarRelu(const Rounded& x, double scale, double bias, double sums) {
  const Rounded positive = Relu(x);
  const at::Tensor square = positive.value.square();
  const Rounded squared = {square, 4 * square * positive.squares + (square * sums).square()};
  return Sum(Scaled(squared, scale, sums), Exact(at::full_like(x.value, bias)), sums);
}

// How much of what it may an output of this type errs by, element by element: over 1 is wrong. Its
// own rounding, to nearest, is certain and not counted. What underflows on the way is not followed.
inline at::Tensor ShareOfBound(const at::Tensor& output, const Rounded& expected) {
  const Precision p = PrecisionOf(output.scalar_type());
  const at::Tensor error = (output.to(at::kDouble) - expected.value).abs();
  const at::Tensor rounding = expected.value.abs() * p.type + p.least;
  return (error - rounding).clamp_min(0.0) / (expected.Margin() + 1e-30);
}

// The rule for rows that rounding decides, as where two keys have nearly the same logit: their
// bound is infinite, they are set aside and counted, and more than 1% of them fails.
inline void ExpectWithinRounding(const at::Tensor& output, const Rounded& expected) {
  ASSERT_EQ(output.sizes(), expected.value.sizes());
  if (output.numel() == 0) return;
  const at::Tensor aside = expected.squares.eq(-kMasked);
  EXPECT_LE(aside.to(at::kDouble).mean().item<double>(), 0.01) << "of the rows are ambiguous";
  const double worst = ShareOfBound(output, expected).masked_fill(aside, 0.0).max().item<double>();
  EXPECT_LE(worst, 1.0) << "of its bound is the error in an output of shape " << output.sizes();
  if (std::getenv("FOVEA_PRINT_ROUNDING") == nullptr) return;
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  std::printf("%s.%s: %.4f of the bound\n", test->test_suite_name(), test->name(), worst);
}

}  // namespace fovea::kernels
