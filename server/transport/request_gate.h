// The inference requests under way; closes when the server drains.
#pragma once

#include <list>
#include <utility>

#include "server/core/cancellation.h"
#include "server/core/check.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Goes one way: open, then closed, then given up.
class RequestGate {
 public:
  // One request's stay behind the gate: it ends with the object.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), place_(other.place_) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      std::swap(place_, other.place_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave(place_);
    }
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    friend class RequestGate;
    using Place = std::list<CancellationPtr>::iterator;
    Pass(RequestGate* gate, Place place) : gate_(gate), place_(place) {}

    RequestGate* gate_ = nullptr;
    Place place_;
  };

  ~RequestGate() { FOVEA_CHECK(inside_.empty()); }

  // A pass for the request that `cancellation` ends; an empty one when the gate is closed.
  Pass TryEnter(CancellationPtr cancellation) {
    MutexLock lock(mutex_);
    if (closed_) return Pass();
    return Pass(this, inside_.insert(inside_.end(), std::move(cancellation)));
  }

  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
  }

  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }

  // Blocks until nobody is inside or `until` has come; the number of requests still inside.
  int AwaitEmpty(Clock& clock, Nanos until) {
    MutexLock lock(mutex_);
    while (!inside_.empty() && clock.Now() < until) clock.WaitUntil(empty_, mutex_, until);
    return static_cast<int>(inside_.size());
  }

  // Cancels those who are still inside. Closed before.
  void GiveUp() {
    std::list<CancellationPtr> late;
    {
      MutexLock lock(mutex_);
      FOVEA_CHECK(closed_);
      given_up_ = true;
      late = inside_;
    }
    for (const CancellationPtr& request : late) request->Cancel();
  }

  // Whether a request that ends as cancelled may owe that to the server's end.
  bool given_up() const {
    MutexLock lock(mutex_);
    return given_up_;
  }

 private:
  void Leave(Pass::Place place) {
    CancellationPtr last;  // dropped outside the mutex
    MutexLock lock(mutex_);
    last = std::move(*place);
    inside_.erase(place);
    if (inside_.empty()) empty_.NotifyAll();
  }

  mutable Mutex mutex_;
  CondVar empty_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<CancellationPtr> inside_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
