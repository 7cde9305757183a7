// What a series of measurements says, and how far it can be trusted. Pure.
#pragma once

#include <cstddef>
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

// `series` is in the order of measurement. The interval is the percentile interval, at kConfidence,
// of a circular block bootstrap (Politis and Romano, 1992) of 1,000 resamples from a fixed seed:
// the same series always gives the same interval. BCa is not used: the jackknife that it needs does
// not estimate the spread of a median (Efron, 1979).
//
// Blocks keep neighbours together, so that noise that lasts for several measurements widens the
// interval as it should. Their length is Carlstein's (1986) for the autocorrelation of the signs
// about the median, which heavy tails do not disturb; it is 1 where there is none. With few blocks
// the interval is too narrow all the same: ask for ten.
//
// None for fewer than kLeastSeries values.
std::optional<Estimate> EstimateMedian(const std::vector<double>& series);

}  // namespace fovea
