// How much of the device a model takes.
#pragma once

#include <cmath>

#include "server/core/clock.h"

namespace fovea {

// Not thread-safe. A moving average: what was used kMemory ago counts a third of what is used now.
class DeviceUse {
 public:
  static constexpr Nanos kMemory = kSecond;

  // A run ended at `now`, which does not go back; device time is the sum over its threads.
  void Add(Nanos device_time, Nanos now) {
    time_ = Remembered(now) + static_cast<double>(device_time);
    at_ = now;
  }

  // That were kept busy, on average.
  double threads(Nanos now) const { return Remembered(now) / kMemory; }

 private:
  double Remembered(Nanos now) const {
    return time_ * std::exp(static_cast<double>(at_ - now) / kMemory);
  }

  double time_ = 0;  // remembered at `at_`
  Nanos at_ = 0;
};

}  // namespace fovea
