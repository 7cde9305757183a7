// What ends the server: a signal, or a model that it was not to start without.
#pragma once

#include <optional>

#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Tells the thread that serves that the server is to stop. Thread-safe.
class StopRequest {
 public:
  explicit StopRequest(Clock& clock) : clock_(clock) {}

  // `exit_code`: of the process, where the drain has nothing to object.
  void Add(int exit_code) {
    MutexLock lock(mutex_);
    if (!exit_code_) exit_code_ = exit_code;
    changed_.NotifyAll();
  }
  int Wait() {
    MutexLock lock(mutex_);
    while (!exit_code_) clock_.WaitUntil(changed_, mutex_, kNever);
    return *exit_code_;
  }
  // Until Hurry() at most.
  void Sleep(Nanos duration) {
    MutexLock lock(mutex_);
    const Nanos end = clock_.Now() + duration;
    while (!hurry_ && clock_.Now() < end) clock_.WaitUntil(changed_, mutex_, end);
  }
  void Hurry() {
    MutexLock lock(mutex_);
    hurry_ = true;
    changed_.NotifyAll();
  }

 private:
  Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<int> exit_code_ ABSL_GUARDED_BY(mutex_);
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace fovea
