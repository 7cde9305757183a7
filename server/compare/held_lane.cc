#include "server/compare/held_lane.h"

#include <utility>

#include "base/status.h"
#include "server/core/mutex.h"
#include "server/executor/intra_op_threads.h"

namespace fovea {
namespace {

// What the caller of Run waits for. Shared with it: the lane's thread may still leave Set when the
// caller goes on.
class Outcome {
 public:
  void Set(absl::Status status) {
    MutexLock lock(mutex_);
    status_ = std::move(status);
    done_ = true;
    changed_.NotifyAll();
  }
  absl::Status Await() {
    MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// One piece of work in line.
class Slot final : public Task {
 public:
  Slot(CancellationPtr cancellation, absl::FunctionRef<void()> work, Nanos arrival,
       std::shared_ptr<Outcome> outcome)
      : cancellation_(std::move(cancellation)),
        work_(work),
        arrival_(arrival),
        outcome_(std::move(outcome)) {}

  void Run() {
    work_();
    outcome_->Set(absl::OkStatus());
  }

  int images() const override { return 1; }
  uint64_t shape_key() const override { return 0; }
  int priority() const override { return 0; }
  Nanos arrival() const override { return arrival_; }
  Nanos timeout() const override { return kNever; }
  Nanos deadline() const override { return kNever; }
  bool Cancelled() const override { return cancellation_->Cancelled(); }
  void Drop(std::unique_ptr<Task> /*self*/, absl::Status why) override {
    outcome_->Set(std::move(why));
  }

 private:
  const CancellationPtr cancellation_;
  const absl::FunctionRef<void()> work_;
  const Nanos arrival_;
  const std::shared_ptr<Outcome> outcome_;
};

}  // namespace

ModelQueueOptions HeldLane::QueueOptions(const HeldLaneOptions& options) {
  return {.name = "experiments",
          .threads_per_batch = {options.device_threads},
          .rate_limiter_priority = options.weight,
          .drain_timeout_us = 0,
          .on_thread_idle = [](int) { IntraOpThreads::Release(); }};
}

absl::StatusOr<std::unique_ptr<HeldLane>> HeldLane::Create(const HeldLaneOptions& options,
                                                           Scheduler& scheduler, Clock& clock) {
  std::unique_ptr<HeldLane> lane(new HeldLane(clock));
  const auto run = [](std::unique_ptr<Batch> batch) {
    // Every task of this queue was made here.
    static_cast<Slot&>(*batch->tasks.front()).Run();
    return RunOutcome::kWhole;
  };
  FOVEA_ASSIGN_OR_RETURN(lane->queue_, scheduler.AddModel(QueueOptions(options), run));
  return lane;
}

absl::Status HeldLane::Run(const CancellationPtr& cancellation, absl::FunctionRef<void()> work) {
  const auto outcome = std::make_shared<Outcome>();
  FOVEA_ASSIGN_OR_RETURN(Reservation place, queue_->Reserve({.images = 1}));
  const Ticket ticket = place.ticket();
  ModelQueue::Enqueue(std::move(place),
                      std::make_unique<Slot>(cancellation, work, clock_.Now(), outcome));
  cancellation->OnCancel([ticket] { ticket.NotifyCancelled(); });
  return outcome->Await();
}

}  // namespace fovea
