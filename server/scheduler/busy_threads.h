// How much of the device a model keeps busy.
#pragma once

#include <cmath>

#include "server/core/clock.h"

namespace fovea {

// Not thread-safe. An exponential moving average over its finished runs.
class BusyThreads {
 public:
  static constexpr Nanos kTimeConstant = kSecond;

  // A run that took `duration`, and so many threads for as long, has ended at `now`, which does not
  // go back.
  void Add(int threads, Nanos duration, Nanos now) {
    average_ =
        average(now) + threads * (1 - std::exp(-static_cast<double>(duration) / kTimeConstant));
    at_ = now;
  }

  // Threads, from 0 to as many as its runs took together at one time.
  double average(Nanos now) const {
    return average_ * std::exp(static_cast<double>(at_ - now) / kTimeConstant);
  }

 private:
  double average_ = 0;  // at `at_`
  Nanos at_ = 0;
};

}  // namespace fovea
