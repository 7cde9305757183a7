// Work for an idle device, as copies of requests are: one task at a time, and only while there is
// nothing else. A request that comes does not wait for it, or only for what a run takes to stop.
#include <algorithm>

#include "server/scheduler/dispatcher.h"
#include "server/scheduler/refusal.h"

namespace fovea {

bool Dispatcher::idle() const {
  return std::all_of(queues_.begin(), queues_.end(), [](const auto& entry) {
    const Queue& queue = entry.second;
    return queue.line.empty() && queue.reserved.size() == 0 && queue.running == 0;
  });
}

bool Dispatcher::others_wait(QueueId queue) const {
  return std::any_of(queues_.begin(), queues_.end(), [queue](const auto& entry) {
    const Queue& other = entry.second;
    return entry.first != queue && (!other.line.empty() || other.reserved.size() > 0);
  });
}

absl::StatusOr<TaskId> Dispatcher::ReserveIdle(Queue& queue, const TaskOutline& outline,
                                               Nanos now) {
  if (queue.state != QueueState::kAccepting) return refusal::Draining();
  if (!idle() || idle_work_) return refusal::NotIdle();
  const TaskId task = ++last_task_;
  queue.reserved.Add(task, outline.priority, queue.OrderOf(outline, now), outline.images);
  idle_work_ = IdleWork{.queue = queue.id, .task = task};
  return task;
}

bool Dispatcher::HasYielded(QueueId queue, TaskId task) const {
  return idle_work_ && idle_work_->queue == queue && idle_work_->task == task &&
         idle_work_->yielded;
}

void Dispatcher::YieldIdleWork() {
  if (!idle_work_ || idle_work_->yielded) return;
  idle_work_->yielded = true;
  if (idle_work_->running != nullptr) {
    yields_.push_back(idle_work_->running);
    return;
  }
  Queue& queue = *Find(idle_work_->queue);
  if (queue.line.Find(idle_work_->task) != nullptr) {
    Drop(queue, queue.line.Remove(idle_work_->task), refusal::NotIdle());
  } else {
    // It is dropped when it comes; a caller may have its place at once.
    queue.reserved.Take(idle_work_->task);
  }
}

void Dispatcher::ForgetIdleWork(QueueId queue, TaskId task) {
  if (idle_work_ && idle_work_->queue == queue && idle_work_->task == task) idle_work_.reset();
}

}  // namespace fovea
