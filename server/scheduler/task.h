// A task: one admitted request, as the scheduler sees it.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"

namespace fovea {

// What the run of a batch takes its time by: batches of one shape on so many threads have one
// latency curve.
struct BatchSize {
  int images = 1;
  uint64_t shape_key = 0;
  int threads = 1;
};

// One request waiting to be run. It is atomic: its images stay in one batch.
// Everything but Cancelled() is asked once, when the task is put in line, and does not change.
class Task {
 public:
  virtual ~Task() = default;

  virtual int images() const = 0;          // 1 .. max_batch_size of its queue
  virtual uint64_t shape_key() const = 0;  // only tasks of one key share a batch
  virtual int priority() const = 0;        // 0 is served first
  virtual Nanos arrival() const = 0;  // when the request came in; orders tasks without a deadline
  // How long it may wait by its own account, from its arrival, before the timeout action of its
  // priority applies; kNever: as long as the policy lets it.
  virtual Nanos timeout() const = 0;
  virtual Nanos deadline() const = 0;  // when its answer stops being wanted; kNever when none

  // Whether the caller has gone. Thread-safe; true stays true. Asked when the task is taken out of
  // the line and when the queue is told of a cancellation (Ticket::NotifyCancelled).
  virtual bool Cancelled() const = 0;

  // Not null: the task is run only while the device has nothing else to do. It is dropped where
  // anything else is in line, is on its way there or runs, and this is cancelled where that comes
  // while it runs. One such task has a place at a time. It counts in no statistics of the queue's
  // callers, and its time is no part of its model's share.
  virtual CancellationPtr idle_only() const { return nullptr; }

  // Takes the task back: it is not going to be run, and why. `self` is this task.
  //   CANCELLED (queue.cancelled); DEADLINE_EXCEEDED (queue.expired, queue.timeout,
  //   queue.unreachable_deadline); UNAVAILABLE (queue.draining, queue.not_idle).
  // Called at most once, instead of the batch callback, on any thread, with no lock held. Returns
  // quickly, does not block, and does not destroy the queue that the task was in.
  virtual void Drop(std::unique_ptr<Task> self, absl::Status why) = 0;
};

// Names one task of one scheduler, from its reservation to its end; never used twice.
using TaskId = uint64_t;

// What is known of a task before anything of it is decoded.
struct TaskOutline {
  int images = 1;
  uint64_t shape_key = 0;
  int priority = 0;
  Nanos deadline = kNever;
  Nanos ready_at = 0;      // when it will be in line, as far as can be told
  bool idle_only = false;  // Task::idle_only will not be null
};

}  // namespace fovea
