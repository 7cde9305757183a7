// What one has at a time, and others wait for until they give up.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Outlives who has it.
class Turn {
 public:
  // Gives it to the next when it is destroyed, on whatever thread.
  class Taken {
   public:
    explicit Taken(Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn.mutex_) : turn_(turn) {
      turn_.taken_ = true;
    }
    ~Taken() {
      MutexLock lock(turn_.mutex_);
      turn_.taken_ = false;
      turn_.changed_.NotifyAll();
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

   private:
    Turn& turn_;
  };

  // Waits while another has it. Null: `gives_up` says so, which is asked 20 times a second
  // meanwhile, with the turn's lock held.
  std::unique_ptr<Taken> Await(absl::FunctionRef<bool()> gives_up, Clock& clock) {
    constexpr Nanos kAsks = 50 * kMillisecond;
    MutexLock lock(mutex_);
    while (taken_) {
      if (gives_up()) return nullptr;
      clock.WaitUntil(changed_, mutex_, clock.Now() + kAsks);
    }
    return std::unique_ptr<Taken>(new Taken(*this));
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace fovea
