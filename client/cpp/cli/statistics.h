// Order statistics of measurements. Pure.
#pragma once

#include <vector>

namespace fovea::client {

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

}  // namespace fovea::client
