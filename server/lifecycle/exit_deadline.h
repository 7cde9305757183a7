// The end that comes whatever hangs: a disk that does not answer, a step of a model that nobody can
// interrupt.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Has a thread of its own, so that it does not depend on any that may hang.
class ExitDeadline {
 public:
  // `exit` ends the process with an exit code, without running destructors.
  ExitDeadline(Clock& clock, std::function<void(int code)> exit);
  // Whoever gets this far ends in the ordinary way: the deadline is off.
  ~ExitDeadline();
  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;

  // At `when` the process ends with `code`, and `why` is logged. Replaces what was set before.
  void Set(Nanos when, int code, std::string why);
  // The same, unless it is to end sooner.
  void SetNoLater(Nanos when, int code, std::string why);

 private:
  void SetLocked(Nanos when, int code, std::string why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch();

  Clock& clock_;
  const std::function<void(int code)> exit_;
  Mutex mutex_;
  CondVar changed_;
  Nanos when_ ABSL_GUARDED_BY(mutex_) = kNever;
  int code_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string why_ ABSL_GUARDED_BY(mutex_);
  bool off_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace fovea
