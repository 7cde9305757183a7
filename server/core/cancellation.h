// One request's cancellation: set once, by the api when its caller goes away, and asked by
// every stage.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <utility>

#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Shared by the api, which cancels, and the stages, which ask.
class Cancellation {
 public:
  bool Cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Wakes the listeners, then runs the callback, if one is set, once, on this thread and outside
  // any lock. Later calls do nothing.
  void Cancel() {
    std::function<void()> callback;
    {
      MutexLock lock(mutex_);
      if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
      callback = std::exchange(callback_, nullptr);
    }
    {
      MutexLock lock(listeners_mutex_);
      for (const std::function<void()>& wake : listeners_) wake();
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

  // Wakes a thread that waits for something else, beside the callback and other listeners. Belongs
  // to the waiting thread.
  class [[nodiscard]] Listener {
   public:
    // `wake` runs when Cancel is called, and not where it was before: ask Cancelled() afterwards.
    // It only notifies: it uses neither the cancellation nor a listener. `cancellation` outlives
    // this.
    Listener(Cancellation& cancellation, std::function<void()> wake) : cancellation_(cancellation) {
      MutexLock lock(cancellation_.listeners_mutex_);
      place_ = cancellation_.listeners_.insert(cancellation_.listeners_.end(), std::move(wake));
    }
    // Waits for a `wake` under way. The thread holds no mutex that `wake` takes.
    ~Listener() {
      MutexLock lock(cancellation_.listeners_mutex_);
      cancellation_.listeners_.erase(place_);
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

   private:
    Cancellation& cancellation_;
    std::list<std::function<void()>>::iterator place_;
  };

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mutex_;
  std::function<void()> callback_ ABSL_GUARDED_BY(mutex_);
  Mutex listeners_mutex_;
  std::list<std::function<void()>> listeners_ ABSL_GUARDED_BY(listeners_mutex_);
};

using CancellationPtr = std::shared_ptr<Cancellation>;

}  // namespace fovea
