// Something that happens once, for threads to wait for. (absl::Notification does the same, but
// Debian's absl is built without ThreadSanitizer, which then sees no order where there is one.)
#pragma once

#include "server/core/mutex.h"

namespace fovea {

// Thread-safe.
class Notification {
 public:
  // Later calls do nothing.
  void Notify() {
    MutexLock lock(mutex_);
    notified_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(mutex_);
    while (!notified_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace fovea
