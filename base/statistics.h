// What a series of measurements says, and how far it can be trusted. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace fovea {

// The middle half of a set of measurements. All zero for none.
struct Quartiles {
  double lower = 0;  // a quarter lies below
  double median = 0;
  double upper = 0;  // a quarter lies above

  bool operator==(const Quartiles&) const = default;
};

// Between two measurements a quantile is interpolated linearly (Hyndman and Fan's seventh
// definition, as numpy's).
Quartiles QuartilesOf(std::vector<double> values);

// The median of a series, and the interval in which the median of an endless one lies.
struct Estimate {
  double value = 0;
  double lower = 0;
  double upper = 0;
  size_t blocks = 0;  // the series' length in blocks of autocorrelated measurements

  bool operator==(const Estimate&) const = default;
};

inline constexpr double kConfidence = 0.95;
inline constexpr size_t kLeastSeries = 20;  // fewer measurements give no interval

// `series` is in the order of measurement. The interval is the percentile interval, at `confidence`
// expanded (ExpandedConfidence), of a circular block bootstrap (Politis and Romano, 1992) of 1,000
// resamples or more from a fixed seed: the same series always gives the same interval. BCa is not
// used: the jackknife that it needs does not estimate the spread of a median (Efron, 1979).
//
// Blocks keep neighbours together, so that noise that lasts for several measurements widens the
// interval as it should. Their length is Carlstein's (1986) for the autocorrelation of the signs
// about the median, which heavy tails do not disturb; it is 1 where there is none. With fewer than
// ten blocks the interval is too narrow all the same.
//
// None for fewer than kLeastSeries values.
std::optional<Estimate> EstimateMedian(const std::vector<double>& series,
                                       double confidence = kConfidence);

// The parts of EstimateMedian, for estimates that are taken over several series of the same rounds.

// Number of neighbouring measurements that are autocorrelated.
size_t BlockLength(const std::vector<double>& series);
// An estimate's interval at `confidence`: that of its values in the resamples. `estimate` is given
// the places of a resample of a series of `size`, blocks of `block` one behind the other.
struct Interval {
  double lower = 0;
  double upper = 0;
};
Interval BootstrapBlocks(size_t size, size_t block, double confidence,
                         const std::function<double(const std::vector<size_t>& places)>& estimate);
// The confidence to ask BootstrapBlocks for, so that its interval of so many blocks holds at
// `confidence`, above 0 and below 1. Percentile intervals of small samples are too narrow, as
// intervals are that take the normal distribution for Student's and a sample's spread for its
// source's: this is the share of the normal distribution within sqrt(n / (n - 1)) times the
// quantile of Student's, n = `blocks`, 2 or more (Hesterberg, What Teachers Should Know about the
// Bootstrap, 2015).
double ExpandedConfidence(size_t blocks, double confidence = kConfidence);
// Of values that are not empty, which it reorders.
double MedianOf(std::vector<double>& values);

}  // namespace fovea
