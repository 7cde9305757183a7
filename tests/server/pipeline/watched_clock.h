// A clock that tells a test when imaging's threads ask for the time.
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <string_view>

#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Steady time, which a test may move on. While `counting`, it counts how often imaging's threads
// ask: who makes results does so after each row of a map.
class WatchedClock final : public Clock {
 public:
  Nanos Now() const override {
    if (counting) {
      char name[16] = {};
      pthread_getname_np(pthread_self(), name, sizeof(name));
      if (std::string_view(name) == "imaging" && ++asked == event_at) event();
    }
    return SteadyClock().Now() + ahead;
  }
  void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    SteadyClock().WaitUntil(condition, mutex, until == kNever ? kNever : until - ahead);
  }

  std::atomic<Nanos> ahead = 0;
  std::atomic<bool> counting = false;
  mutable std::atomic<int> asked = 0;
  int event_at = 0;
  std::function<void()> event;  // when it is asked for that time
};

}  // namespace fovea
