// Calls that are answered on another thread, which may never get to it.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "server/core/mutex.h"
#include "server/transport/unary_answer.h"

namespace fovea {

// Thread-safe. Whoever takes a call out answers it, exactly once.
class DeferredCalls {
 public:
  // The call's number. Nothing where all are given up: it is ended, too.
  std::optional<uint64_t> Add(UnaryCall* call) {
    absl::Status given_up;
    {
      MutexLock lock(mutex_);
      given_up = given_up_;
      if (given_up.ok()) {
        calls_.emplace(++last_, call);
        return last_;
      }
    }
    call->Fail(given_up);
    return std::nullopt;
  }

  // Whether somebody still waits for the answer; a call whose caller has gone is ended.
  bool Awaited(uint64_t number) {
    UnaryCall* gone;
    {
      MutexLock lock(mutex_);
      const auto found = calls_.find(number);
      if (found == calls_.end()) return false;
      if (!found->second->cancelled()) return true;
      gone = found->second;
      calls_.erase(found);
    }
    gone->Fail(Cancelled("request.cancelled", "the caller cancelled the request"));
    return false;
  }

  // Does nothing where the call was given up meanwhile.
  template <typename Response>
  void Answer(uint64_t number, absl::Status status, const Response& response) {
    if (UnaryCall* const call = Take(number)) call->Answer(std::move(status), response);
  }

  // Ends all that have no answer yet with `status`, an error, and all that come later.
  void GiveUp(const absl::Status& status) {
    std::unordered_map<uint64_t, UnaryCall*> calls;
    {
      MutexLock lock(mutex_);
      if (given_up_.ok()) given_up_ = status;
      calls.swap(calls_);
    }
    for (const auto& [number, call] : calls) call->Fail(status);
  }

 private:
  UnaryCall* Take(uint64_t number) {
    MutexLock lock(mutex_);
    const auto found = calls_.extract(number);
    return found.empty() ? nullptr : found.mapped();
  }

  Mutex mutex_;
  absl::Status given_up_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, UnaryCall*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
