#include "base/sequential.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace fovea {
namespace {

// Variance of the prior on the effect's size, in spreads of a block. Higher: narrower early, where
// only large effects can be seen, and wider later.
constexpr double kPriorVariance = 1;

// Bets stay below it: near 1 a single surprise would undo all before it.
constexpr double kMostBet = 0.75;

// The part of the error that a series may spend between two merges of its blocks. It falls slowly:
// the sum over all `merges` is 1, however long the series becomes.
double PartOfError(int merges) {
  const double turn = merges + 1;
  return 6 / (std::numbers::pi * std::numbers::pi * turn * turn);
}

}  // namespace

void SequentialMean::Add(double value) {
  ++count_;
  sum_ += value;
  if (++in_sum_ < block_) return;
  means_.push_back(sum_ / static_cast<double>(block_));
  sum_ = 0;
  in_sum_ = 0;
  if (means_.size() < kMostBlocks) return;
  for (size_t i = 0; i < kMostBlocks / 2; ++i) {
    means_[i] = (means_[2 * i] + means_[2 * i + 1]) / 2;
  }
  means_.resize(kMostBlocks / 2);
  block_ *= 2;
  ++merges_;
}

AnytimeInterval SequentialMean::Interval(double error) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double n = static_cast<double>(means_.size());
  double mean = 0, squares = 0;
  for (const double value : means_) mean += value / n;
  for (const double value : means_) squares += (value - mean) * (value - mean);
  if (means_.size() < kLeastBlocks) return {mean, -kInfinity, kInfinity};
  // The Bayes factor at a mean whose t statistic is t, with T = t^2 / (n - 1) and g = 1 + n c^2, is
  // g^(-1/2) ((1 + T) / (1 + T / g))^(n/2). It is below 1 / error where T is below this. The bound
  // holds for one sequence of blocks; merged they are another, with a part of the error of its own.
  const double g = 1 + n * kPriorVariance;
  const double a = std::pow(std::sqrt(g) / (error * PartOfError(merges_)), 2 / n);
  if (a >= g) return {mean, -kInfinity, kInfinity};
  const double most = (a - 1) / (1 - a / g);
  const double reach = std::sqrt(most * squares / n);  // T = n (mean - m)^2 / squares
  return {mean, mean - reach, mean + reach};
}

BoundedSequentialMean::BoundedSequentialMean(double least, double most, double error)
    : least_(least), most_(most), log_error_(std::log(2 / error)) {}

void BoundedSequentialMean::Add(double value) {
  const double x = std::clamp((value - least_) / (most_ - least_), 0.0, 1.0);
  const double next = static_cast<double>(count_ + 1);
  const double mean_before = (0.5 + sum_) / next;
  const double variance_before = (0.25 + squares_) / next;
  const double bet =
      std::min(std::sqrt(2 * log_error_ / (variance_before * next * std::log(1 + next))), kMostBet);
  const double psi = (-std::log1p(-bet) - bet) / 4;
  bets_ += bet;
  weighted_ += bet * x;
  variance_terms_ += 4 * (x - mean_before) * (x - mean_before) * psi;
  sum_ += x;
  ++count_;
  const double mean = (0.5 + sum_) / (next + 1);
  squares_ += (x - mean) * (x - mean);
}

AnytimeInterval BoundedSequentialMean::Interval() const {
  if (count_ == 0) return {(least_ + most_) / 2, least_, most_};
  const double middle = weighted_ / bets_;
  const double reach = (log_error_ + variance_terms_) / bets_;
  const double lower = std::clamp(middle - reach, 0.0, 1.0);
  const double upper = std::clamp(middle + reach, 0.0, 1.0);
  const double mean = std::clamp(sum_ / static_cast<double>(count_), lower, upper);
  const auto scaled = [this](double share) { return least_ + share * (most_ - least_); };
  return {scaled(mean), scaled(lower), scaled(upper)};
}

}  // namespace fovea
