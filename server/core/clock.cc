#include "server/core/clock.h"

#include <chrono>

namespace fovea {
namespace {

class RealClock : public Clock {
 public:
  Nanos Now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (until == kNever) {
      condition.Wait(mutex);
      return;
    }
    condition.WaitUntil(mutex,
                        std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until)));
  }
};

}  // namespace

Clock& SteadyClock() {
  static RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace fovea
