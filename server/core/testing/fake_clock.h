// A clock that stands still until a test moves it.
#pragma once

#include <list>

#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Waits end only when they are notified or when the clock is moved past them: tests do
// not sleep.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(Nanos start = kSecond) : now_(start) {}

  Nanos Now() const override;
  void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Moves the time by `step` nanoseconds, not back, and returns when every wait that is over by
  // then has ended. The caller holds no mutex that somebody waits with.
  void Advance(Nanos step);

  // Blocks until at least `count` waits are under way: those threads are known to sleep.
  void AwaitWaiters(int count) const;
  // The earliest time that somebody waits for; kNever when nobody waits for a time.
  Nanos NextWake() const;

 private:
  struct Waiter {
    CondVar* condition;
    Nanos until;
  };

  mutable Mutex mutex_;  // taken while a waiter's mutex is held, never the other way round
  mutable CondVar changed_;
  Nanos now_ ABSL_GUARDED_BY(mutex_);
  std::list<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
