// All of the device for one piece of work at a time, between the batches of models.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/scheduler/scheduler.h"

namespace fovea {

struct HeldLaneOptions {
  int device_threads = 1;
  // As ModelQueueOptions::rate_limiter_priority: against a model of 1 that always has work it gets
  // one in so many parts of the device's time. Turn it up where experiments disturb what serves.
  int weight = 10;
};

// A queue of the scheduler like a model's, whose batches take every thread: nothing else runs on
// the device meanwhile, and what serves runs in between. All work is run by one thread.
// Thread-safe; the scheduler outlives it.
class HeldLane {
 public:
  // As which it stands in the scheduler's line.
  static ModelQueueOptions QueueOptions(const HeldLaneOptions& options);

  // Scheduler::AddModel's errors.
  static absl::StatusOr<std::unique_ptr<HeldLane>> Create(const HeldLaneOptions& options,
                                                          Scheduler& scheduler, Clock& clock);

  // Runs `work` when its turn comes, and returns when it is done. It must not throw, and is short:
  // a pass or two, because models wait for as long. CANCELLED where `cancellation` is set before
  // its turn.
  absl::Status Run(const CancellationPtr& cancellation, absl::FunctionRef<void()> work);

 private:
  explicit HeldLane(Clock& clock) : clock_(clock) {}

  Clock& clock_;
  std::unique_ptr<ModelQueue> queue_;
};

}  // namespace fovea
