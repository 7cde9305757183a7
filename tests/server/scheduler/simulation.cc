#include "tests/server/scheduler/simulation.h"

#include <utility>

#include "base/check.h"

namespace fovea {

QueueId Simulation::AddModel(const ModelQueueOptions& options, Cost cost) {
  const QueueId id = dispatcher_.AddQueue(options);
  costs_[id] = std::move(cost);
  return id;
}

void Simulation::At(Nanos when, std::function<void()> what) {
  FOVEA_CHECK(when >= now_);
  events_.emplace(when, std::move(what));
}

absl::StatusOr<TaskId> Simulation::Submit(QueueId queue, std::shared_ptr<TaskRecord> record) {
  absl::StatusOr<TaskId> id = dispatcher_.Reserve(
      queue, {.images = record->images, .priority = record->priority, .deadline = record->deadline},
      now_);
  if (!id.ok()) return id;
  dispatcher_.Enqueue(queue, *id, std::make_unique<FakeTask>(std::move(record)), now_);
  Step();
  return id;
}

void Simulation::Cancel(QueueId queue, TaskId id, TaskRecord& record) {
  record.cancelled = true;
  dispatcher_.NotifyCancelled(queue, id);
  Step();
}

void Simulation::RunUntil(Nanos until) {
  while (!events_.empty() && events_.begin()->first <= until) {
    auto event = events_.extract(events_.begin());
    now_ = event.key();
    event.mapped()();
  }
  if (until != kNever) now_ = until;
}

void Simulation::Step() {
  Dispatcher::Work work = dispatcher_.Next(now_);
  for (Dispatcher::Dropped& dropped : work.drops) {
    on_drop(dropped);
    Task& task = *dropped.task;
    task.Drop(std::move(dropped.task), std::move(dropped.why));
  }
  for (Dispatcher::Start& start : work.starts) {
    start.batch->MoveTo(BatchState::kRunning);
    on_start(start.queue, *start.batch);
    const Nanos cost = costs_.at(start.queue)(*start.batch);
    At(now_ + cost,
       [this, queue = start.queue, cost, batch = std::shared_ptr<Batch>(std::move(start.batch))] {
         for (auto& task : batch->tasks) RecordOf(*task).Run();
         batch->MoveTo(BatchState::kDone);
         on_done(queue, *batch);
         dispatcher_.Done(queue, batch->instance, RunOutcome::kWhole, cost, now_);
         Step();
       });
  }
  on_settled();
  if (work.wake_at == kNever || !wakes_.insert(work.wake_at).second) return;
  FOVEA_CHECK(work.wake_at > now_);
  At(work.wake_at, [this] {
    wakes_.erase(now_);
    Step();
  });
}

}  // namespace fovea
