#include "server/compare/held_lane.h"

#include <utility>

#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/mutex.h"
#include "server/core/thread_scheduling.h"
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

// How long work in parts keeps the device at a time: a request that comes waits for as long.
constexpr Nanos kPart = 20 * kMillisecond;
// How long steps share a turn. Requests are forecast to wait for the turns that they see.
constexpr Nanos kTurnOfSteps = 5 * kMillisecond;

// One turn in line.
class Slot final : public Task {
 public:
  Slot(CancellationPtr cancellation, Nanos arrival, std::function<void()> run,
       std::function<void(absl::Status)> drop)
      : cancellation_(std::move(cancellation)),
        arrival_(arrival),
        run_(std::move(run)),
        drop_(std::move(drop)) {}

  void Run() { run_(); }

  int images() const override { return 1; }
  uint64_t shape_key() const override { return 0; }
  int priority() const override { return 0; }
  Nanos arrival() const override { return arrival_; }
  Nanos timeout() const override { return kNever; }
  Nanos deadline() const override { return kNever; }
  bool Cancelled() const override { return cancellation_->Cancelled(); }
  void Drop(std::unique_ptr<Task> /*self*/, absl::Status why) override { drop_(std::move(why)); }

 private:
  const CancellationPtr cancellation_;
  const Nanos arrival_;
  const std::function<void()> run_;
  const std::function<void(absl::Status)> drop_;
};

}  // namespace

// Between the lane's thread, which keeps the device, and the one that works meanwhile.
class HeldLane::Handover {
 public:
  void Keep() {
    MutexLock lock(mutex_);
    kept_ = true;
    changed_.NotifyAll();
    while (!given_back_) changed_.Wait(mutex_);
  }
  void Drop(absl::Status why) {
    MutexLock lock(mutex_);
    dropped_ = std::move(why);
    changed_.NotifyAll();
  }
  absl::Status AwaitKept() {
    MutexLock lock(mutex_);
    while (!kept_ && dropped_.ok()) changed_.Wait(mutex_);
    return dropped_;
  }
  void GiveBack() {
    MutexLock lock(mutex_);
    given_back_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool kept_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_back_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status dropped_ ABSL_GUARDED_BY(mutex_);
};

ModelQueueOptions HeldLane::QueueOptions(const HeldLaneOptions& options) {
  return {.name = "experiments",
          .threads_per_batch = {options.device_threads},
          .rate_limiter_priority = options.weight,
          .drain_timeout_us = 0,
          .on_thread_idle = [](int) { IntraOpThreads::Release(); }};
}

absl::StatusOr<std::unique_ptr<HeldLane>> HeldLane::Create(const HeldLaneOptions& options,
                                                           Scheduler& scheduler, Clock& clock,
                                                           std::unique_ptr<HeldLane> inner) {
  std::unique_ptr<HeldLane> lane(new HeldLane(clock, std::move(inner)));
  const auto run = [](std::unique_ptr<Batch> batch) {
    // Every task of this queue was made here.
    static_cast<Slot&>(*batch->tasks.front()).Run();
    return RunOutcome::kWhole;
  };
  FOVEA_ASSIGN_OR_RETURN(lane->queue_, scheduler.AddModel(QueueOptions(options), run));
  return lane;
}

absl::Status HeldLane::Enqueue(const CancellationPtr& cancellation, std::function<void()> run,
                               std::function<void(absl::Status)> drop) {
  FOVEA_ASSIGN_OR_RETURN(Reservation place, queue_->Reserve({.images = 1}));
  const Ticket ticket = place.ticket();
  ModelQueue::Enqueue(std::move(place), std::make_unique<Slot>(cancellation, clock_.Now(),
                                                               std::move(run), std::move(drop)));
  cancellation->OnCancel([ticket] { ticket.NotifyCancelled(); });
  return absl::OkStatus();
}

absl::Status HeldLane::Run(const CancellationPtr& cancellation, absl::FunctionRef<void()> work) {
  const AtOnce at_once;  // goes on when the work is done, beside other programs too
  const auto outcome = std::make_shared<Outcome>();
  FOVEA_RETURN_IF_ERROR(Enqueue(
      cancellation,
      [this, outcome, work, cancellation] {
        if (inner_ != nullptr) {
          outcome->Set(inner_->Run(cancellation, work));
          return;
        }
        outcome->Set(OrOutOfMemory([&] {
          work();
          return absl::OkStatus();
        }));
      },
      [outcome](absl::Status why) { outcome->Set(std::move(why)); }));
  return outcome->Await();
}

bool HeldLane::OthersWait() const {
  return queue_->OthersWait() || (inner_ != nullptr && inner_->OthersWait());
}

absl::Status HeldLane::RunSteps(const CancellationPtr& cancellation,
                                absl::FunctionRef<absl::StatusOr<bool>()> step) {
  absl::StatusOr<bool> more = true;
  const auto turn = [&] {
    const Nanos began = clock_.Now();
    do {
      more = step();
    } while (more.ok() && *more && clock_.Now() - began < kTurnOfSteps && !OthersWait());
  };
  while (more.ok() && *more) FOVEA_RETURN_IF_ERROR(Run(cancellation, turn));
  return more.status();
}

HeldLane::Parts::~Parts() { End(); }

void HeldLane::Parts::End() {
  if (inner_ != nullptr) inner_->End();
  if (held_ != nullptr) std::exchange(held_, nullptr)->GiveBack();
}

absl::Status HeldLane::Parts::Begin() {
  const auto handover = std::make_shared<Handover>();
  FOVEA_RETURN_IF_ERROR(lane_.Enqueue(
      cancellation_, [handover] { handover->Keep(); },
      [handover](absl::Status why) { handover->Drop(std::move(why)); }));
  FOVEA_RETURN_IF_ERROR(handover->AwaitKept());
  held_ = handover;
  if (inner_ != nullptr) {
    if (absl::Status begun = inner_->Begin(); !begun.ok()) {
      End();
      return begun;
    }
  }
  began_ = lane_.clock_.Now();
  return absl::OkStatus();
}

bool HeldLane::Parts::AreOthersDue() const { return lane_.clock_.Now() - began_ >= kPart; }

absl::Status HeldLane::Parts::Next() {
  End();
  return Begin();
}

absl::Status HeldLane::RunInParts(const CancellationPtr& cancellation,
                                  absl::FunctionRef<absl::Status(Parts&)> work) {
  Parts parts(*this, cancellation);
  FOVEA_RETURN_IF_ERROR(parts.Begin());
  return work(parts);
}

}  // namespace fovea
