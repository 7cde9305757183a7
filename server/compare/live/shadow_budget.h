// What copies of requests may take of the device. Pure: time comes through a parameter.
#pragma once

#include <algorithm>

#include "server/core/clock.h"

namespace fovea {

// A bucket of thread time: it fills by a share of what the device's threads have, and what a copy
// has taken is drawn from it afterwards, when it is known. So it may owe a copy's time, and then
// gives nothing until that is paid. Not thread-safe.
class ShadowBudget {
 public:
  // `share`: the part of the time of all threads that copies may take.
  ShadowBudget(double share, int threads, Nanos now)
      : rate_(share * threads), most_(rate_ * kSavedSeconds * kSecond), last_(now) {}

  // Whether a copy may run now.
  bool Allows(Nanos now) {
    Fill(now);
    return saved_ > 0;
  }
  // A copy has taken so much of one thread's time.
  void Spend(Nanos thread_time, Nanos now) {
    Fill(now);
    saved_ -= static_cast<double>(thread_time);
  }

 private:
  // A burst after a quiet time is at most what so many seconds bring.
  static constexpr double kSavedSeconds = 1;

  void Fill(Nanos now) {
    saved_ = std::min(most_, saved_ + rate_ * static_cast<double>(now - last_));
    last_ = now;
  }

  const double rate_;
  const double most_;
  double saved_ = 0;
  Nanos last_;
};

}  // namespace fovea
