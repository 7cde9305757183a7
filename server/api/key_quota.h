// How much one API key may still ask.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/api/api_keys.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe.
class KeyQuota : public std::enable_shared_from_this<KeyQuota> {
 public:
  explicit KeyQuota(const KeyLimits& limits) : limits_(limits) {}

  // One request's place among those that the key has under way; given back when it goes.
  class Place {
   public:
    explicit Place(std::shared_ptr<KeyQuota> quota) : quota_(std::move(quota)) {}
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { quota_->GiveBack(); }

   private:
    const std::shared_ptr<KeyQuota> quota_;
  };

  // The file has changed; requests that are under way stay counted.
  void SetLimits(const KeyLimits& limits) {
    MutexLock lock(mutex_);
    limits_ = limits;
  }

  // Counts a request that has come at `now`. RESOURCE_EXHAUSTED quota.concurrency, quota.rate: the
  // key asks for more than it may, and nothing is counted.
  absl::StatusOr<std::shared_ptr<Place>> Take(Nanos now);

 private:
  absl::Status Count(Nanos now);
  void GiveBack() {
    MutexLock lock(mutex_);
    --under_way_;
  }

  Mutex mutex_;
  KeyLimits limits_ ABSL_GUARDED_BY(mutex_);
  int64_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  // When a caller who keeps to the rate sends the next request.
  Nanos due_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace fovea
