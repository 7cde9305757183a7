// How long a caller may take to send a body, or to read an answer.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/limits.h"
#include "server/core/clock.h"

namespace fovea {

// Each `time` has to bring its share at limits::kLeastHttpBytesPerSecond, so that what comes fast
// at first buys no time for standing still. In the time of asio's timers.
class TransferPace {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  explicit TransferPace(Nanos time) : time_(time) {}

  // A transfer begins.
  void Start(SteadyTime now) {
    start_ = now;
    begin_ = 0;
  }
  // Of which `bytes` have gone: until when the next have to.
  SteadyTime Limit(int64_t bytes, SteadyTime now) {
    const double share = static_cast<double>(time_) / kSecond * limits::kLeastHttpBytesPerSecond;
    if (bytes - begin_ >= static_cast<int64_t>(share)) {
      start_ = now;
      begin_ = bytes;
    }
    return start_ + std::chrono::nanoseconds(time_);
  }

 private:
  const Nanos time_;
  SteadyTime start_;   // of the share
  int64_t begin_ = 0;  // bytes that had gone then
};

}  // namespace fovea
