// A discrete-event simulation of a device: the Dispatcher alone, in virtual time, without threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/scheduler/dispatcher.h"
#include "tests/server/scheduler/fake_task.h"

namespace fovea {

class Simulation {
 public:
  explicit Simulation(const SchedulerOptions& options = {}) : dispatcher_(options) {}

  Nanos now() const { return now_; }
  Dispatcher& dispatcher() { return dispatcher_; }

  // What a batch takes to run.
  using Cost = std::function<Nanos(const Batch&)>;
  QueueId AddModel(const ModelQueueOptions& options, Cost cost);

  // Called when a batch is closed, with its tasks in it, and when it is done.
  std::function<void(QueueId, const Batch&)> on_start = [](QueueId, const Batch&) {};
  std::function<void(QueueId, const Batch&)> on_done = [](QueueId, const Batch&) {};
  // Called before a dropped task is given back.
  std::function<void(const Dispatcher::Dropped&)> on_drop = [](const Dispatcher::Dropped&) {};
  // Called when all that was to be done at this time is done.
  std::function<void()> on_settled = [] {};

  // Does something at a time that has not passed. Things of one time are done in the order in which
  // they were asked for.
  void At(Nanos when, std::function<void()> what);
  // Reserves and enqueues at once. The task's id, or why no place was given.
  absl::StatusOr<TaskId> Submit(QueueId queue, std::shared_ptr<TaskRecord> record);
  // Marks the task as cancelled and tells the queue.
  void Cancel(QueueId queue, TaskId id, TaskRecord& record);

  // Until `until`, or until nothing is left to happen.
  void RunUntil(Nanos until);
  void RunToTheEnd() { RunUntil(kNever); }
  // Lets the dispatcher decide, after something was done to it from outside.
  void Step();

 private:
  Dispatcher dispatcher_;
  std::map<QueueId, Cost> costs_;
  std::multimap<Nanos, std::function<void()>> events_;
  std::set<Nanos> wakes_;  // scheduled
  Nanos now_ = kSecond;
};

}  // namespace fovea
