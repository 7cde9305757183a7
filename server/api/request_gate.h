// The inference requests under way; closes when the server drains.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <utility>

#include "base/check.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Goes one way: open, then closed, then given up.
class RequestGate {
  struct Inside {
    CancellationPtr request;
    bool answered = false;
  };

 public:
  // One request's stay behind the gate: it ends with the object. Until Answered() the request is
  // being worked on; then its answer is on its way out, as fast as its caller reads.
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

    // A later call does nothing.
    void Answered() {
      if (gate_ != nullptr) gate_->Answered(place_);
    }

   private:
    friend class RequestGate;
    using Place = std::list<Inside>::iterator;
    Pass(RequestGate* gate, Place place) : gate_(gate), place_(place) {}

    RequestGate* gate_ = nullptr;
    Place place_;
  };

  // What is left to do of a request whose answer has left, or is about to: it is short, and the
  // gate stays until it is done. Nothing else waits for it.
  class Rest {
   public:
    Rest() = default;  // nothing is
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;
    ~Rest() {
      if (gate_ != nullptr) gate_->Go();
    }

   private:
    friend class RequestGate;
    explicit Rest(RequestGate* gate) : gate_(gate) {}
    RequestGate* const gate_ = nullptr;
  };

  ~RequestGate() {
    MutexLock lock(mutex_);
    FOVEA_CHECK(inside_.empty());
    while (rests_ > 0) changed_.Wait(mutex_);
  }

  // A pass for the request that `cancellation` ends; an empty one when the gate is closed. `now`:
  // when it came.
  Pass TryEnter(CancellationPtr cancellation, Nanos now) {
    MutexLock lock(mutex_);
    last_came_ = std::max(last_came_, now);
    if (closed_) return Pass();
    ++unanswered_;
    return Pass(this, inside_.insert(inside_.end(), {.request = std::move(cancellation)}));
  }

  // For a request that is inside.
  Rest Stay() {
    MutexLock lock(mutex_);
    ++rests_;
    return Rest(this);
  }

  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
  }

  bool closed() const {
    MutexLock lock(mutex_);
    return closed_;
  }

  // Blocks until every request inside is answered, or AnswerDeadline(until) has come; the number of
  // those that are not.
  int AwaitAnswers(Clock& clock, Nanos until) {
    MutexLock lock(mutex_);
    while (unanswered_ > 0 && clock.Now() < AnswerDeadlineLocked(until)) {
      clock.WaitUntil(changed_, mutex_, AnswerDeadlineLocked(until));
    }
    return unanswered_;
  }

  // AwaitAnswers, under way or to come, ends at `until` at the latest.
  void CapAnswerDeadline(Nanos until) {
    MutexLock lock(mutex_);
    answer_deadline_ = std::min(answer_deadline_, until);
    changed_.NotifyAll();
  }

  // When an AwaitAnswers(until) ends: then, or at the cap where that is sooner.
  Nanos AnswerDeadline(Nanos until) const {
    MutexLock lock(mutex_);
    return AnswerDeadlineLocked(until);
  }

  // Blocks until nobody is inside, every answer having left, or `until` has come; the number of
  // answers that have not.
  int AwaitEmpty(Clock& clock, Nanos until) {
    MutexLock lock(mutex_);
    while (!inside_.empty() && clock.Now() < until) clock.WaitUntil(changed_, mutex_, until);
    return static_cast<int>(inside_.size()) - unanswered_;
  }

  // Blocks until none has come to the gate, open or closed, for the time of `quiet` from now on, or
  // `until` has come.
  void AwaitQuiet(Clock& clock, Nanos quiet, Nanos until) {
    const Nanos began = clock.Now();
    MutexLock lock(mutex_);
    for (;;) {
      const Nanos end = std::min(until, std::max(began, last_came_) + quiet);
      if (clock.Now() >= end) return;
      clock.WaitUntil(changed_, mutex_, end);
    }
  }

  // Cancels the requests inside that have no answer yet. Closed before.
  void GiveUp() {
    std::list<Inside> late;
    {
      MutexLock lock(mutex_);
      FOVEA_CHECK(closed_);
      given_up_ = true;
      late = inside_;
    }
    for (const Inside& inside : late) {
      if (!inside.answered) inside.request->Cancel();
    }
  }

  // Whether a request that ends as cancelled may owe that to the server's end.
  bool given_up() const {
    MutexLock lock(mutex_);
    return given_up_;
  }

 private:
  void Answered(Pass::Place place) {
    MutexLock lock(mutex_);
    Count(*place);
  }

  void Leave(Pass::Place place) {
    CancellationPtr last;  // dropped outside the mutex
    MutexLock lock(mutex_);
    Count(*place);
    last = std::move(place->request);
    inside_.erase(place);
    if (inside_.empty()) changed_.NotifyAll();
  }

  void Go() {
    MutexLock lock(mutex_);
    if (--rests_ == 0) changed_.NotifyAll();
  }

  Nanos AnswerDeadlineLocked(Nanos until) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::min(until, answer_deadline_);
  }

  void Count(Inside& inside) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(inside.answered, true)) return;
    if (--unanswered_ == 0) changed_.NotifyAll();
  }

  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  Nanos last_came_ ABSL_GUARDED_BY(mutex_) = INT64_MIN / 2;
  Nanos answer_deadline_ ABSL_GUARDED_BY(mutex_) = kNever;
  int unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  int rests_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Inside> inside_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
