// A clock that a test sets forward, for what is to be over.
#pragma once

#include <atomic>

#include "server/core/clock.h"

namespace fovea {

// Steady time, and what was added to it. Thread-safe.
class LateClock final : public Clock {
 public:
  void Add(Nanos time) { added_ += time; }
  // From here on: whatever lies between two looks takes so long.
  void AddAtEachLook(Nanos time) { at_each_look_ = time; }
  Nanos added() const { return added_; }

  Nanos Now() const override { return SteadyClock().Now() + (added_ += at_each_look_); }
  void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    SteadyClock().WaitUntil(condition, mutex, until == kNever ? kNever : until - added_);
  }

 private:
  mutable std::atomic<Nanos> added_ = 0;
  std::atomic<Nanos> at_each_look_ = 0;
};

}  // namespace fovea
