#include "server/scheduler/refusal.h"

#include "base/check.h"
#include "base/status.h"

namespace fovea::refusal {

absl::Status Full() { return Unavailable("queue.full", "the model's queue is full"); }

absl::Status Draining() {
  return Unavailable("queue.draining", "the model takes no more requests");
}

absl::Status NotIdle() {
  return Unavailable("queue.not_idle", "the device has something else to do");
}

absl::Status CallerGone() {
  return Cancelled("queue.cancelled", "the request was cancelled while it waited");
}

absl::Status Expired() {
  return DeadlineExceeded("queue.expired", "the deadline passed before the request could be run");
}

absl::Status TimedOut() {
  return DeadlineExceeded("queue.timeout",
                          "the request waited longer than the model's queue allows");
}

absl::Status Unreachable() {
  return DeadlineExceeded("queue.unreachable_deadline",
                          "the request could not be finished before its deadline");
}

absl::Status BadBatch() {
  return InvalidArgument("queue.bad_batch", "the model does not take so many images at once");
}

absl::Status BadPriority() {
  return InvalidArgument("queue.bad_priority", "the model has no such priority");
}

Rejection CountedAs(const absl::Status& why) {
  if (why.code() == absl::StatusCode::kCancelled) return Rejection::kCancelled;
  if (why.code() == absl::StatusCode::kDeadlineExceeded) return Rejection::kDeadline;
  FOVEA_CHECK(why.code() == absl::StatusCode::kUnavailable);
  return ReasonOf(why) == "queue.full" ? Rejection::kFull : Rejection::kDraining;
}

}  // namespace fovea::refusal
