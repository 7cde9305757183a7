// The errors that a queue gives: their codes, reasons and texts.
#pragma once

#include "absl/status/status.h"
#include "server/scheduler/observer.h"

namespace fovea::refusal {

absl::Status Full();         // UNAVAILABLE, queue.full
absl::Status Draining();     // UNAVAILABLE, queue.draining
absl::Status NotIdle();      // UNAVAILABLE, queue.not_idle: it is only to run on an idle device
absl::Status CallerGone();   // CANCELLED, queue.cancelled
absl::Status Expired();      // DEADLINE_EXCEEDED, queue.expired: the deadline has passed
absl::Status TimedOut();     // DEADLINE_EXCEEDED, queue.timeout: the queue's own limit has passed
absl::Status Unreachable();  // DEADLINE_EXCEEDED, queue.unreachable_deadline: it would pass
absl::Status BadBatch();     // INVALID_ARGUMENT, queue.bad_batch
absl::Status BadPriority();  // INVALID_ARGUMENT, queue.bad_priority

// How the observer counts a request that was refused with, or a task that was dropped with `why`;
// none of the invalid ones.
Rejection CountedAs(const absl::Status& why);

}  // namespace fovea::refusal
