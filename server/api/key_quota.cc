#include "server/api/key_quota.h"

#include <algorithm>

#include "base/status.h"

namespace fovea {

absl::StatusOr<std::shared_ptr<KeyQuota::Place>> KeyQuota::Take(Nanos now) {
  FOVEA_RETURN_IF_ERROR(Count(now));
  return std::make_shared<Place>(shared_from_this());
}

absl::Status KeyQuota::Count(Nanos now) {
  MutexLock lock(mutex_);
  if (limits_.concurrency > 0 && under_way_ >= limits_.concurrency) {
    return ResourceExhausted("quota.concurrency",
                             "the key has as many requests under way as it may");
  }
  if (limits_.requests_per_second > 0) {
    // The generic cell rate algorithm (ITU-T I.371): two numbers, and no timer that fills a bucket.
    const Nanos interval = kSecond / limits_.requests_per_second;
    // The limits may have changed: nobody is held to more than a burst of the present ones.
    due_ = std::clamp(due_, now, now + interval * limits_.burst);
    if (due_ - now > interval * (limits_.burst - 1)) {
      return ResourceExhausted("quota.rate", "the key asks more often than it may");
    }
    due_ += interval;
  }
  ++under_way_;
  return absl::OkStatus();
}

}  // namespace fovea
