// All devices for one piece of work at a time, between the batches of models.
#pragma once

#include <functional>
#include <memory>
#include <utility>

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
// the device meanwhile, and what serves runs in between. Where there are several schedulers, one
// is held inside the other. No Lane of the executor's: it has no model. Thread-safe; the scheduler
// outlives it.
class HeldLane {
 private:
  class Handover;

 public:
  // As which it stands in the scheduler's line.
  static ModelQueueOptions QueueOptions(const HeldLaneOptions& options);

  // `inner`: of another scheduler, that is held whenever this one is; may be null.
  // Scheduler::AddModel's errors.
  static absl::StatusOr<std::unique_ptr<HeldLane>> Create(
      const HeldLaneOptions& options, Scheduler& scheduler, Clock& clock,
      std::unique_ptr<HeldLane> inner = nullptr);

  // Runs `work` when its turn comes, on the innermost lane's one thread, and returns when it is
  // done. It is short: a pass or two, because models wait for as long. CANCELLED where
  // `cancellation` is set before its turn; UNAVAILABLE server.out_of_memory where it runs out of
  // memory.
  absl::Status Run(const CancellationPtr& cancellation, absl::FunctionRef<void()> work);
  // Runs `step` until it returns false or an error, as Run would each time. Short steps share a
  // turn, of a few milliseconds, for as long as no model waits: beside other programs the two
  // wake-ups of a turn take longer than a short step. Errors are Run's and those of `step`.
  absl::Status RunSteps(const CancellationPtr& cancellation,
                        absl::FunctionRef<absl::StatusOr<bool>()> step);

  // The turns of work that takes long. On the thread that works.
  class Parts {
   public:
    ~Parts();
    Parts(const Parts&) = delete;
    Parts& operator=(const Parts&) = delete;

    // Whether this turn has lasted so long that others are to have theirs. To be asked now and
    // then, a few hundredths of a second apart.
    bool AreOthersDue() const;
    // Lets them run, and waits for its own next turn. As Run's errors; no turn is held after one.
    absl::Status Next();

   private:
    friend class HeldLane;
    Parts(HeldLane& lane, const CancellationPtr& cancellation)
        : lane_(lane),
          cancellation_(cancellation),
          inner_(lane.inner_ != nullptr ? new Parts(*lane.inner_, cancellation) : nullptr) {}
    absl::Status Begin();
    void End();

    HeldLane& lane_;
    const CancellationPtr cancellation_;
    const std::unique_ptr<Parts> inner_;  // null: the lane has none
    Nanos began_ = 0;
    std::shared_ptr<Handover> held_;  // null: no turn is held
  };
  // Runs `work` on the calling thread, from when its first turn comes, while the device is held for
  // it, and returns what it returns.
  absl::Status RunInParts(const CancellationPtr& cancellation,
                          absl::FunctionRef<absl::Status(Parts&)> work);

 private:
  HeldLane(Clock& clock, std::unique_ptr<HeldLane> inner)
      : clock_(clock), inner_(std::move(inner)) {}
  absl::Status Enqueue(const CancellationPtr& cancellation, std::function<void()> run,
                       std::function<void(absl::Status)> drop);
  bool OthersWait() const;

  Clock& clock_;
  const std::unique_ptr<HeldLane> inner_;
  std::unique_ptr<ModelQueue> queue_;
};

}  // namespace fovea
