#include "server/scheduler/task_queue.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

Nanos Expires(const WaitingTask& task) { return std::min(task.deadline, task.timeout); }

// When the timeout action of its priority applies.
Nanos TimeoutOf(const Task& task, const QueuePolicy& policy) {
  Nanos timeout =
      policy.default_timeout_us == 0 ? kNever : policy.default_timeout_us * kMicrosecond;
  if (policy.allow_timeout_override) timeout = std::min(timeout, task.timeout());
  return timeout == kNever ? kNever : task.arrival() + timeout;
}

}  // namespace

bool TaskQueue::ByOrder::operator()(const WaitingTask* a, const WaitingTask* b) const {
  return std::tie(a->priority, a->delayed, a->order, a->id) <
         std::tie(b->priority, b->delayed, b->order, b->id);
}

bool TaskQueue::ByExpiry::operator()(const WaitingTask* a, const WaitingTask* b) const {
  return std::pair(Expires(*a), a->id) < std::pair(Expires(*b), b->id);
}

TaskQueue::TaskQueue(const ModelQueueOptions& options)
    : default_deadline_(options.default_deadline_us * kMicrosecond),
      policies_(options.policies),
      sizes_(policies_.size()) {}

void TaskQueue::Add(TaskId id, std::unique_ptr<Task> task, Nanos now) {
  const auto priority = static_cast<size_t>(task->priority());
  FOVEA_CHECK(priority < policies_.size());
  WaitingTask& waiting = by_age_.emplace_back();
  waiting.id = id;
  waiting.images = task->images();
  waiting.shape_key = task->shape_key();
  waiting.priority = task->priority();
  waiting.deadline = task->deadline();
  waiting.order =
      waiting.deadline == kNever ? task->arrival() + default_deadline_ : waiting.deadline;
  waiting.timeout = TimeoutOf(*task, policies_[priority]);
  waiting.since = now;
  waiting.task = std::move(task);
  Link(&waiting);
  ++sizes_[priority];
  const bool added = by_id_.emplace(id, std::prev(by_age_.end())).second;
  FOVEA_CHECK(added);
}

const WaitingTask* TaskQueue::Find(TaskId id) const {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &*found->second;
}

std::unique_ptr<Task> TaskQueue::Remove(TaskId id) {
  auto found = by_id_.find(id);
  FOVEA_CHECK(found != by_id_.end());
  return Extract(&*found->second);
}

template <typename Visit>
int TaskQueue::Walk(const Line& line, int room, Visit visit) {
  int images = 0;
  int passed_over = 0;
  for (WaitingTask* task : line.tasks) {
    if (images >= room || passed_over > kMaxPassedOver) break;
    if (images > 0 && task->images > room - images) {
      ++passed_over;
    } else if (visit(task)) {
      images += task->images;
    } else if (images == 0) {
      break;
    }
  }
  return images;
}

TaskQueue::Forming TaskQueue::Look(int room) const {
  const WaitingTask& first = front();
  const Line& line = by_shape_.find(first.shape_key)->second;
  Forming forming{.images = line.images};
  Walk(line, room, [&](const WaitingTask* task) {
    if (task->priority == first.priority && task->delayed == first.delayed) {
      forming.first_images += task->images;
      forming.first_deadline = std::min(forming.first_deadline, task->deadline);
    } else {
      forming.behind_deadline = std::min(forming.behind_deadline, task->deadline);
    }
    return true;
  });
  return forming;
}

TaskQueue::Taken TaskQueue::Take(int room, absl::FunctionRef<bool(const WaitingTask&)> admit,
                                 std::vector<std::unique_ptr<Task>>* refused) {
  Taken taken{.shape_key = front().shape_key};
  std::vector<WaitingTask*> leaving;
  std::vector<WaitingTask*> unfit;
  taken.images = Walk(by_shape_.find(taken.shape_key)->second, room, [&](WaitingTask* task) {
    const bool admitted = admit(*task);
    (admitted ? leaving : unfit).push_back(task);
    return admitted;
  });
  taken.tasks.reserve(leaving.size());
  for (WaitingTask* task : leaving) taken.tasks.push_back(Extract(task));
  for (WaitingTask* task : unfit) refused->push_back(Extract(task));
  return taken;
}

Nanos TaskQueue::NextExpiry() const {
  return by_expiry_.empty() ? kNever : Expires(**by_expiry_.begin());
}

int TaskQueue::TakeExpired(Nanos now, absl::FunctionRef<void(std::unique_ptr<Task>, Expiry)> take) {
  int delayed = 0;
  while (NextExpiry() <= now) {
    WaitingTask* task = *by_expiry_.begin();
    if (task->deadline <= now) {
      take(Extract(task), Expiry::kDeadline);
    } else if (policies_[task->priority].timeout_action == TimeoutAction::kReject) {
      take(Extract(task), Expiry::kTimeout);
    } else {
      Unlink(task);
      task->timeout = kNever;
      task->delayed = true;
      Link(task);
      ++delayed;
    }
  }
  return delayed;
}

int TaskQueue::ImagesBefore(int priority, Nanos order) const {
  WaitingTask arriving;
  arriving.priority = priority;
  arriving.order = order;
  arriving.id = ~TaskId{0};
  return static_cast<int>(by_order_.Before(&arriving));
}

void TaskQueue::Link(WaitingTask* task) {
  by_order_.Insert(task, task->images);
  if (Expires(*task) != kNever) by_expiry_.insert(task);
  Line& line = by_shape_[task->shape_key];
  line.tasks.insert(task);
  line.images += task->images;
}

void TaskQueue::Unlink(WaitingTask* task) {
  by_order_.Erase(task);
  by_expiry_.erase(task);
  auto line = by_shape_.find(task->shape_key);
  line->second.tasks.erase(task);
  line->second.images -= task->images;
  if (line->second.tasks.empty()) by_shape_.erase(line);
}

std::unique_ptr<Task> TaskQueue::Extract(WaitingTask* task) {
  Unlink(task);
  --sizes_[task->priority];
  std::unique_ptr<Task> taken = std::move(task->task);
  const auto found = by_id_.find(task->id);
  by_age_.erase(found->second);
  by_id_.erase(found);
  return taken;
}

}  // namespace fovea
