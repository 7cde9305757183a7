// Calls that take long, for the disk or a model's load, on threads of their own: the transport's
// stay free for those that do not.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/api/control_threads.h"
#include "server/core/mutex.h"

namespace fovea {

// A caller who waits for an answer that comes from another thread. `Answer` is an absl::Status or
// an absl::StatusOr.
template <typename Answer>
struct WaitingCaller {
  std::function<bool()> gone;  // whether nobody reads the answer any more; asked before `done`
  std::function<void(Answer)> done;  // called once, on any thread
};

// Thread-safe. Each caller's `done` is called once: with what the work returned, or with why it
// was not done. Its threads may never get to it: a disk may hang.
template <typename Answer>
class DeferredCalls {
 public:
  using Work = std::function<Answer()>;

  // Throws std::system_error where the system has no thread left.
  DeferredCalls(int threads, size_t max_waiting) : threads_(threads, max_waiting) {}

  // Returns quickly. UNAVAILABLE repository.busy where too many calls wait.
  void Run(WaitingCaller<Answer> caller, Work work) {
    const std::optional<uint64_t> number = Add(std::move(caller));
    if (!number) return;
    const bool taken = threads_.Run([this, number = *number, work = std::move(work)] {
      if (!Awaited(number)) return;
      End(number, OrOutOfMemory(work));
    });
    if (!taken) {
      End(*number, Unavailable("repository.busy", "too many calls wait for the model repository"));
    }
  }

  // Ends all calls that have no answer yet with `status`, an error, and all that come later.
  void GiveUp(const absl::Status& status) {
    std::unordered_map<uint64_t, WaitingCaller<Answer>> callers;
    {
      MutexLock lock(mutex_);
      if (given_up_.ok()) given_up_ = status;
      callers.swap(callers_);
    }
    for (const auto& [number, caller] : callers) caller.done(status);
  }

 private:
  // The call's number. Nothing where all are given up: it is ended, too.
  std::optional<uint64_t> Add(WaitingCaller<Answer> caller) {
    absl::Status given_up;
    {
      MutexLock lock(mutex_);
      given_up = given_up_;
      if (given_up.ok()) {
        callers_.emplace(++last_, std::move(caller));
        return last_;
      }
    }
    caller.done(given_up);
    return std::nullopt;
  }

  // Whether somebody still waits for the answer; the call of one who has gone is ended.
  bool Awaited(uint64_t number) {
    {
      MutexLock lock(mutex_);
      const auto found = callers_.find(number);
      if (found == callers_.end()) return false;
      if (!found->second.gone()) return true;
    }
    End(number, Cancelled("request.cancelled", "the caller cancelled the request"));
    return false;
  }

  // Does nothing where the call was given up meanwhile.
  void End(uint64_t number, Answer answer) {
    std::function<void(Answer)> done;
    {
      MutexLock lock(mutex_);
      const auto found = callers_.extract(number);
      if (found.empty()) return;
      done = std::move(found.mapped().done);
    }
    done(std::move(answer));
  }

  Mutex mutex_;
  absl::Status given_up_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, WaitingCaller<Answer>> callers_ ABSL_GUARDED_BY(mutex_);
  ControlThreads threads_;  // last: they use the calls
};

}  // namespace fovea
