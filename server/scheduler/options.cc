#include "server/scheduler/options.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

constexpr int64_t kLongestUs = limits::kMaxTimeoutSeconds * 1'000'000;

absl::Status CheckRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidArgument("scheduler.bad_options",
                         absl::StrCat(field, " is ", value, ", not in ", low, " .. ", high));
}

}  // namespace

absl::Status Validate(const SchedulerOptions& options) {
  FOVEA_RETURN_IF_ERROR(
      CheckRange("device_threads", options.device_threads, 1, limits::kMaxThreadsPerInstance));
  return CheckRange("fair_share_quantum_us", options.fair_share_quantum_us, 1, kLongestUs);
}

absl::Status Validate(const ModelQueueOptions& options, const SchedulerOptions& scheduler) {
  FOVEA_RETURN_IF_ERROR(
      CheckRange("max_batch_size", options.max_batch_size, 1, limits::kMaxBatchSize));
  for (int size : options.preferred_batch_sizes) {
    FOVEA_RETURN_IF_ERROR(CheckRange("preferred_batch_size", size, 1, options.max_batch_size));
  }
  FOVEA_RETURN_IF_ERROR(CheckRange("max_queue_delay_us", options.max_queue_delay_us, 0,
                                   limits::kMaxQueueDelayMicroseconds));
  FOVEA_RETURN_IF_ERROR(CheckRange("policies", static_cast<int64_t>(options.policies.size()), 1,
                                   limits::kMaxPriorityLevels));
  for (const QueuePolicy& policy : options.policies) {
    FOVEA_RETURN_IF_ERROR(
        CheckRange("max_queue_size", policy.max_queue_size, 1, limits::kMaxQueueSize));
    FOVEA_RETURN_IF_ERROR(
        CheckRange("default_timeout_us", policy.default_timeout_us, 0, kLongestUs));
  }
  FOVEA_RETURN_IF_ERROR(
      CheckRange("default_deadline_us", options.default_deadline_us, 1, kLongestUs));
  FOVEA_RETURN_IF_ERROR(CheckRange("instances", options.instances, 1, limits::kMaxInstances));
  FOVEA_RETURN_IF_ERROR(CheckRange("threads_per_batch",
                                   static_cast<int64_t>(options.threads_per_batch.size()), 1,
                                   scheduler.device_threads));
  int fewer = 0;
  for (const int threads : options.threads_per_batch) {
    FOVEA_RETURN_IF_ERROR(
        CheckRange("threads_per_batch", threads, fewer + 1, scheduler.device_threads));
    fewer = threads;
  }
  if (options.threads_per_batch.size() > 1) {
    FOVEA_RETURN_IF_ERROR(
        CheckRange("threads_per_batch", fewer, scheduler.device_threads, scheduler.device_threads));
    FOVEA_RETURN_IF_ERROR(CheckRange("instances", options.instances,
                                     fewer / options.threads_per_batch.front(),
                                     limits::kMaxInstances));
  }
  FOVEA_RETURN_IF_ERROR(CheckRange("rate_limiter_priority", options.rate_limiter_priority, 1,
                                   limits::kMaxRateLimiterPriority));
  return CheckRange("drain_timeout_us", options.drain_timeout_us, 0, kLongestUs);
}

}  // namespace fovea
