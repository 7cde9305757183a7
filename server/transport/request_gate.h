// Counts the inference requests under way, and closes when the server drains.
#pragma once

#include <utility>

#include "server/core/check.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Goes one way: open, then closed.
class RequestGate {
 public:
  // One request's stay behind the gate: it ends with the object.
  class Pass {
   public:
    Pass() = default;
    explicit Pass(RequestGate* gate) : gate_(gate) {}
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->Leave();
    }
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    RequestGate* gate_ = nullptr;
  };

  ~RequestGate() { FOVEA_CHECK(inside_ == 0); }

  // An empty pass when the gate is closed.
  Pass TryEnter() {
    MutexLock lock(mutex_);
    if (closed_) return Pass();
    ++inside_;
    return Pass(this);
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
    while (inside_ > 0 && clock.Now() < until) clock.WaitUntil(empty_, mutex_, until);
    return inside_;
  }

 private:
  void Leave() {
    MutexLock lock(mutex_);
    if (--inside_ == 0) empty_.NotifyAll();
  }

  mutable Mutex mutex_;
  CondVar empty_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace fovea
