// Time comes through a parameter: nothing that decides about a request, a batch or a model reads a
// clock or sleeps by itself, so the same code runs in tests and in simulations without waiting.
#pragma once

#include <cstdint>
#include <limits>

#include "server/core/mutex.h"

namespace fovea {

// Steady time or a duration, in nanoseconds.
using Nanos = int64_t;

inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Nanoseconds since an arbitrary moment; never goes back, and is not moved by changes of the wall
  // clock.
  virtual Nanos Now() const = 0;

  // Waits on `condition`, whose mutex is held, until it is notified or `until` is reached (kNever:
  // only notified). May wake up for no reason.
  virtual void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

// std::chrono::steady_clock. Never destroyed.
Clock& SteadyClock();

}  // namespace fovea
