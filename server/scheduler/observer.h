// What the scheduler tells those who count.
#pragma once

#include <string_view>

#include "server/core/clock.h"
#include "server/scheduler/batch.h"

namespace fovea {

// Why a request was turned away, or a waiting task given back without being run.
enum class Rejection {
  kFull,       // the queue has no place left
  kDeadline,   // its deadline or queue timeout had passed, or would pass before it could finish
  kCancelled,  // its caller went away while it waited
  kDraining,   // the queue takes no more work, or gave up on what waited
};

// "full", "deadline", "cancelled", "draining": the label of the metric.
std::string_view RejectionName(Rejection reason);

// Hears of one queue's events, in the order in which they happen. Every method is called under the
// scheduler's lock: it returns quickly and calls nothing of the scheduler.
class SchedulerObserver {
 public:
  virtual ~SchedulerObserver() = default;

  // `waiting`: tasks in line; `reserved`: places held by requests that are still being prepared.
  virtual void OnQueueDepth(int waiting, int reserved) = 0;
  // Of a queue with several priorities: the places, in line or reserved, that each of them holds.
  virtual void OnPriorityDepth(int /*priority*/, int /*places*/) {}
  // A request that was refused a place.
  virtual void OnRejected(int priority, Rejection reason) = 0;
  // A task that had a place and left the queue without being run.
  virtual void OnDropped(int priority, Rejection reason) = 0;
  // So many tasks have timed out, and stand behind the rest of their priority now.
  virtual void OnDelayed(int /*tasks*/) {}
  virtual void OnBatchClosed(const Batch& batch) = 0;
  // The callback of a batch of `images` images returned after `duration`.
  virtual void OnBatchDone(int images, Nanos duration) = 0;
  // So much device time (of one thread) is free earlier than forecast, because nobody waits for
  // some work any more (its caller has gone, its deadline has passed or cannot be met): of a task
  // that left the queue its share of a full batch, of a batch that was stopped what it would still
  // have taken. An estimate, by the latency curves; nothing where they are not measured. Who does
  // not count it leaves it.
  virtual void OnWorkSaved(Nanos /*time*/) {}
};

}  // namespace fovea
