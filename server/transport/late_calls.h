// Calls that are answered on another thread, which may never get to it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "server/core/mutex.h"
#include "server/transport/unary_answer.h"

namespace fovea {

// Thread-safe. Whoever takes a call out answers it, exactly once.
class LateCalls {
 public:
  // The call's number.
  uint64_t Add(UnaryCall* call) {
    MutexLock lock(mutex_);
    calls_.emplace(++last_, call);
    return last_;
  }

  // Does nothing where the call was given up meanwhile.
  template <typename Response>
  void Answer(uint64_t number, absl::Status status, const Response& response) {
    if (UnaryCall* const call = Take(number)) call->Answer(std::move(status), response);
  }

  // Ends all that have no answer yet with `status`.
  void GiveUp(const absl::Status& status) {
    std::unordered_map<uint64_t, UnaryCall*> calls;
    {
      MutexLock lock(mutex_);
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
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, UnaryCall*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
