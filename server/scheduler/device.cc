#include "server/scheduler/device.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

// The queue whose callback this thread is in: such a thread would wait for itself if it drained
// that queue.
struct Inside {
  const Device* device = nullptr;
  QueueId queue = 0;
};
thread_local Inside inside;

class CallbackScope {
 public:
  CallbackScope(const Device* device, QueueId queue)
      : outer_(std::exchange(inside, {device, queue})) {}
  ~CallbackScope() { inside = outer_; }

 private:
  const Inside outer_;
};

}  // namespace

Device::Device(const SchedulerOptions& options, Clock& clock)
    : options_(options), clock_(clock), dispatcher_(options) {}

absl::Status Device::Startup() {
  return StartThreads([this] { timer_ = std::thread([this] { RunTimer(); }); });
}

void Device::Shutdown() {
  {
    MutexLock lock(mutex_);
    FOVEA_CHECK(workers_.empty());
    timer_stop_ = true;
  }
  timer_wake_.NotifyOne();
  timer_.join();
}

absl::StatusOr<QueueId> Device::AddQueue(const ModelQueueOptions& options, BatchCallback run) {
  auto workers = std::make_shared<Workers>();
  workers->run = std::move(run);
  workers->on_idle = options.on_thread_idle;
  workers->idle_after = options.idle_after_us * kMicrosecond;
  for (int i = 0; i < options.instances; ++i) {
    workers->instances.push_back(std::make_shared<Instance>());
  }
  QueueId id;
  {
    MutexLock lock(mutex_);
    id = dispatcher_.AddQueue(options);
    workers_.emplace(id, workers);
  }
  absl::Status started = StartThreads([&] {
    for (int i = 0; i < options.instances; ++i) {
      workers->instances[i]->thread =
          std::thread([this, id, i, workers, on_start = options.on_thread_start] {
            if (on_start) on_start(i);
            RunInstance(id, i, *workers->instances[i], *workers);
          });
    }
  });
  if (!started.ok()) {
    RemoveQueue(id, clock_.Now());
    return started;
  }
  return id;
}

void Device::RemoveQueue(QueueId id, Nanos drain_until) {
  (void)Drain(id, drain_until);
  std::shared_ptr<Workers> workers;
  {
    MutexLock lock(mutex_);
    dispatcher_.RemoveQueue(id);
    auto found = workers_.find(id);
    workers = std::move(found->second);
    workers_.erase(found);
    for (const auto& instance : workers->instances) {
      FOVEA_CHECK(instance->next == nullptr);
      instance->stop = true;
    }
  }
  for (const auto& instance : workers->instances) instance->wake.NotifyOne();
  for (const auto& instance : workers->instances) {
    if (instance->thread.joinable()) instance->thread.join();
  }
}

absl::StatusOr<Reservation> Device::Reserve(QueueId queue, const TaskOutline& outline) {
  absl::StatusOr<TaskId> task;
  Outbox outbox;
  {
    MutexLock lock(mutex_);
    const Nanos now = clock_.Now();
    task = dispatcher_.Reserve(queue, outline, now);
    if (dispatcher_.yielding()) Decide(now, &outbox);
  }
  Deliver(std::move(outbox));
  if (!task.ok()) return std::move(task).status();
  return Reservation(Ticket(shared_from_this(), queue, *task));
}

void Device::Release(QueueId queue, TaskId task) {
  MutexLock lock(mutex_);
  dispatcher_.Release(queue, task);
  NotifyIdle();
  if (Workers* workers = FindWorkers(queue)) NotifyDrain(*workers);
}

void Device::Enqueue(Reservation reservation, std::unique_ptr<Task> task) {
  const Ticket ticket = std::exchange(reservation.ticket_, Ticket());
  Outbox outbox;
  {
    MutexLock lock(mutex_);
    const Nanos now = clock_.Now();
    dispatcher_.Enqueue(ticket.queue_, ticket.task_, std::move(task), now);
    Decide(now, &outbox);
  }
  Deliver(std::move(outbox));
}

void Device::NotifyCancelled(QueueId queue, TaskId task) {
  Outbox outbox;
  {
    MutexLock lock(mutex_);
    dispatcher_.NotifyCancelled(queue, task);
    Decide(clock_.Now(), &outbox);
  }
  Deliver(std::move(outbox));
}

void Device::RecordLatency(QueueId queue, const BatchSize& batch, Nanos duration) {
  MutexLock lock(mutex_);
  dispatcher_.RecordLatency(queue, batch, duration, clock_.Now());
}

Nanos Device::LeastRunTime(QueueId queue, const BatchSize& batch) const {
  MutexLock lock(mutex_);
  return dispatcher_.LeastRunTime(queue, batch, clock_.Now());
}

ModelQueue::Depth Device::depth(QueueId queue) const {
  MutexLock lock(mutex_);
  return {.waiting = dispatcher_.waiting(queue),
          .reserved = dispatcher_.reserved(queue),
          .running = dispatcher_.running(queue)};
}

bool Device::OthersWait(QueueId queue) const {
  MutexLock lock(mutex_);
  return dispatcher_.others_wait(queue);
}

bool Device::AwaitIdle(Nanos until) {
  MutexLock lock(mutex_);
  ++idle_waiters_;
  while (!dispatcher_.idle() && clock_.Now() < until) clock_.WaitUntil(idle_, mutex_, until);
  --idle_waiters_;
  return dispatcher_.idle();
}

void Device::NotifyIdle() {
  if (idle_waiters_ > 0 && dispatcher_.idle()) idle_.NotifyAll();
}

absl::Status Device::Drain(QueueId id, Nanos until) {
  FOVEA_CHECK(inside.device != this || inside.queue != id);
  {
    Outbox outbox;
    {
      MutexLock lock(mutex_);
      dispatcher_.Drain(id);
      Decide(clock_.Now(), &outbox);
    }
    Deliver(std::move(outbox));
  }
  bool in_time;
  std::shared_ptr<Workers> workers;
  Outbox outbox;
  {
    MutexLock lock(mutex_);
    workers = workers_.at(id);
    ++workers->drain_waiters;
    while (!Settled(id) && clock_.Now() < until) clock_.WaitUntil(workers->settled, mutex_, until);
    in_time = dispatcher_.waiting(id) == 0 && dispatcher_.reserved(id) == 0;
    dispatcher_.Stop(id);
    Decide(clock_.Now(), &outbox);
  }
  Deliver(std::move(outbox));
  MutexLock lock(mutex_);
  while (!Settled(id)) clock_.WaitUntil(workers->settled, mutex_, kNever);
  --workers->drain_waiters;
  if (in_time) return absl::OkStatus();
  return DeadlineExceeded("queue.drain_timeout",
                          "the time to drain was over before the queue was empty");
}

bool Device::Settled(QueueId queue) {
  return dispatcher_.waiting(queue) == 0 && dispatcher_.reserved(queue) == 0 &&
         dispatcher_.running(queue) == 0 && workers_.at(queue)->dropping == 0;
}

Device::Workers* Device::FindWorkers(QueueId queue) {
  auto found = workers_.find(queue);
  return found == workers_.end() ? nullptr : found->second.get();
}

void Device::NotifyDrain(Workers& workers) {
  if (workers.drain_waiters > 0) workers.settled.NotifyAll();
}

void Device::Decide(Nanos now, Outbox* outbox) {
  Dispatcher::Work work = dispatcher_.Next(now);
  for (Dispatcher::Start& start : work.starts) {
    const std::shared_ptr<Instance>& instance =
        workers_.at(start.queue)->instances[start.batch->instance];
    FOVEA_CHECK(instance->next == nullptr);
    instance->next = std::move(start.batch);
    outbox->wake.push_back(instance);
  }
  for (const Dispatcher::Dropped& dropped : work.drops) {
    if (Workers* workers = FindWorkers(dropped.queue)) ++workers->dropping;
  }
  outbox->drops = std::move(work.drops);
  outbox->yields = std::move(work.yields);
  if (work.wake_at < timer_until_) {
    timer_until_ = work.wake_at;
    outbox->wake_timer = true;
  }
  NotifyIdle();
}

void Device::Deliver(Outbox outbox) {
  for (const auto& instance : outbox.wake) instance->wake.NotifyOne();
  if (outbox.wake_timer) timer_wake_.NotifyOne();
  for (const CancellationPtr& running : outbox.yields) running->Cancel();
  for (Dispatcher::Dropped& dropped : outbox.drops) {
    {
      CallbackScope scope(this, dropped.queue);
      Task& task = *dropped.task;
      task.Drop(std::move(dropped.task), std::move(dropped.why));
    }
    MutexLock lock(mutex_);
    if (Workers* workers = FindWorkers(dropped.queue)) {
      --workers->dropping;
      NotifyDrain(*workers);
    }
  }
}

std::unique_ptr<Batch> Device::AwaitBatch(Instance& instance, Nanos until) {
  MutexLock lock(mutex_);
  while (instance.next == nullptr && !instance.stop) {
    if (until != kNever && clock_.Now() >= until) break;
    clock_.WaitUntil(instance.wake, mutex_, until);
  }
  return std::move(instance.next);
}

void Device::RunInstance(QueueId queue, int index, Instance& instance, const Workers& workers) {
  for (;;) {
    std::unique_ptr<Batch> batch;
    if (workers.on_idle) {
      batch = AwaitBatch(instance, clock_.Now() + workers.idle_after);
      if (batch == nullptr) workers.on_idle(index);
    }
    if (batch == nullptr) batch = AwaitBatch(instance, kNever);
    if (batch == nullptr) return;
    batch->MoveTo(BatchState::kRunning);
    const Nanos start = clock_.Now();
    RunOutcome outcome;
    {
      CallbackScope scope(this, queue);
      outcome = workers.run(std::move(batch));
    }
    Outbox outbox;
    {
      MutexLock lock(mutex_);
      const Nanos now = clock_.Now();
      dispatcher_.Done(queue, index, outcome, now - start, now);
      Decide(now, &outbox);
      NotifyDrain(*workers_.at(queue));
    }
    Deliver(std::move(outbox));
  }
}

void Device::RunTimer() {
  for (;;) {
    Outbox outbox;
    {
      MutexLock lock(mutex_);
      while (!timer_stop_ && clock_.Now() < timer_until_) {
        clock_.WaitUntil(timer_wake_, mutex_, timer_until_);
      }
      if (timer_stop_) return;
      timer_until_ = kNever;
      Decide(clock_.Now(), &outbox);
      outbox.wake_timer = false;
    }
    Deliver(std::move(outbox));
  }
}

}  // namespace fovea
