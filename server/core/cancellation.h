// One request's cancellation: set once, by the api when its caller goes away, and asked by
// every stage.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Shared by the api, which cancels, and the stages, which ask.
class Cancellation {
 public:
  bool Cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Runs the callback, if one is set, once, on this thread and outside any lock. Later calls do
  // nothing.
  void Cancel() {
    std::function<void()> callback;
    {
      MutexLock lock(mutex_);
      if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
      callback = std::exchange(callback_, nullptr);
    }
    if (callback) callback();
  }

  // `callback` runs when Cancel is called; at once, on this thread, when it already was.
  // Replaces an earlier one; nullptr forgets it. A callback already under way is not waited for.
  void OnCancel(std::function<void()> callback) {
    {
      MutexLock lock(mutex_);
      if (!cancelled_.load(std::memory_order_acquire)) {
        callback_ = std::move(callback);
        return;
      }
    }
    if (callback) callback();
  }

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  std::function<void()> callback_ ABSL_GUARDED_BY(mutex_);
};

using CancellationPtr = std::shared_ptr<Cancellation>;

}  // namespace fovea
