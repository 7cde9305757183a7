#include "server/core/testing/fake_clock.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace fovea {

Nanos FakeClock::Now() const {
  MutexLock lock(mutex_);
  return now_;
}

void FakeClock::WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) {
  std::list<Waiter>::iterator waiter;
  {
    MutexLock lock(mutex_);
    if (until <= now_) return;
    waiter = waiters_.insert(waiters_.end(), Waiter{&condition, until});
    changed_.NotifyAll();
  }
  condition.Wait(mutex);
  MutexLock lock(mutex_);
  waiters_.erase(waiter);
  changed_.NotifyAll();
}

void FakeClock::Advance(Nanos step) {
  FOVEA_CHECK(step >= 0);
  MutexLock lock(mutex_);
  now_ += step;
  // A waiter signs in before it sleeps, so one notification could come too early to wake it: notify
  // until it signs out. Only under mutex_, which it needs to sign out, is its condition sure to be
  // alive.
  for (;;) {
    bool due = false;
    for (const Waiter& waiter : waiters_) {
      if (waiter.until > now_) continue;
      due = true;
      waiter.condition->NotifyAll();
    }
    if (!due) return;
    changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + std::chrono::microseconds(50));
  }
}

void FakeClock::AwaitWaiters(int count) const {
  MutexLock lock(mutex_);
  while (static_cast<int>(waiters_.size()) < count) changed_.Wait(mutex_);
}

Nanos FakeClock::NextWake() const {
  MutexLock lock(mutex_);
  Nanos next = kNever;
  for (const Waiter& waiter : waiters_) next = std::min(next, waiter.until);
  return next;
}

}  // namespace fovea
