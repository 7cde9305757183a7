// The line of one model: earliest deadline first inside a priority.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "server/core/clock.h"
#include "server/core/weighted_order.h"
#include "server/scheduler/options.h"
#include "server/scheduler/task.h"

namespace fovea {

// A task in line, with what was asked of it when it came.
struct WaitingTask {
  TaskId id = 0;
  std::unique_ptr<Task> task;
  int images = 0;
  uint64_t shape_key = 0;
  int priority = 0;
  bool delayed = false;  // it has timed out, and stands behind those of its priority that have not
  Nanos order = 0;       // inside that: its deadline, or arrival + default_deadline
  Nanos deadline = 0;    // kNever when none
  Nanos timeout = 0;     // when the queue's timeout action applies; kNever when never or done
  Nanos since = 0;       // in line
};

// Not thread-safe.
//
// The order is by priority, then deadline, then age of the reservation; what has timed out stands
// behind the rest of its priority where the policy says so. The first task in line fixes the shape
// of the next batch. From the line of that shape, in order, each task that fits into the room that
// is left joins; one that does not is passed over and keeps its place. So a large task does not
// hold up smaller ones behind it, and it is not held up for ever either: only tasks with an earlier
// deadline or a better priority come before it, and the first in line always gets in.
class TaskQueue {
 public:
  // The fields that it reads: default_deadline_us, policies.
  explicit TaskQueue(const ModelQueueOptions& options);

  // Its priority has a policy.
  void Add(TaskId id, std::unique_ptr<Task> task, Nanos now);

  bool empty() const { return by_order_.empty(); }
  int size() const { return static_cast<int>(by_order_.size()); }
  int size(int priority) const { return sizes_[priority]; }
  int images() const { return static_cast<int>(by_order_.total()); }
  int ImagesOf(uint64_t shape_key) const {
    const auto line = by_shape_.find(shape_key);
    return line == by_shape_.end() ? 0 : line->second.images;
  }
  // visit(shape key, images) for each shape in line.
  template <typename Visit>
  void ForEachShape(Visit visit) const {
    for (const auto& [shape_key, line] : by_shape_) visit(shape_key, line.images);
  }

  const WaitingTask& front() const { return *by_order_.front(); }
  // Null when it is not in line.
  const WaitingTask* Find(TaskId id) const;
  // Takes a task that is in line.
  std::unique_ptr<Task> Remove(TaskId id);

  // Since when somebody has been in line. The line is not empty.
  Nanos oldest() const { return by_age_.front().since; }

  // The batch that would form now.
  struct Forming {
    int images = 0;        // of the first task's shape, also more than `room`
    int first_images = 0;  // of those in it that have the first's priority and are delayed as it is
    Nanos first_deadline = kNever;   // the earliest of those
    Nanos behind_deadline = kNever;  // the earliest of the others in it
  };
  // Looks at the tasks that would be in a batch of `room` images. The line is not empty.
  Forming Look(int room) const;

  // Takes the tasks of a batch of `room` images, in order; the first even if it is larger than the
  // room. Those that `admit` refuses leave the line too, into `refused`. Where it refuses the
  // first, nothing is taken: another is the first now, with a shape and a size of its own.
  struct Taken {
    std::vector<std::unique_ptr<Task>> tasks;
    int images = 0;
    uint64_t shape_key = 0;
  };
  Taken Take(int room, absl::FunctionRef<bool(const WaitingTask&)> admit,
             std::vector<std::unique_ptr<Task>>* refused);

  // The next time at which somebody's deadline or timeout comes; kNever when none.
  Nanos NextExpiry() const;
  enum class Expiry { kDeadline, kTimeout };
  // Takes what has expired by `now`, in the order of expiry, and sends to the end of its priority
  // what has timed out where the action is kDelay: how many those are.
  int TakeExpired(Nanos now, absl::FunctionRef<void(std::unique_ptr<Task>, Expiry)> take);

  // Images in line before a task that would come now; the delayed ones are not. O(log n).
  int ImagesBefore(int priority, Nanos order) const;

  // Bound of what one decision looks at beyond the tasks that it takes.
  static constexpr int kMaxPassedOver = 256;

 private:
  struct ByOrder {
    bool operator()(const WaitingTask* a, const WaitingTask* b) const;
  };
  struct ByExpiry {
    bool operator()(const WaitingTask* a, const WaitingTask* b) const;
  };
  struct Line {
    absl::btree_set<WaitingTask*, ByOrder> tasks;
    int images = 0;
  };
  // Calls visit(task) for each task that would join a batch of `room` images, until it is full.
  // visit returns whether the task takes its room; it is over where the first does not.
  template <typename Visit>
  static int Walk(const Line& line, int room, Visit visit);

  void Link(WaitingTask* task);
  void Unlink(WaitingTask* task);
  std::unique_ptr<Task> Extract(WaitingTask* task);

  const Nanos default_deadline_;
  const std::vector<QueuePolicy> policies_;  // of each priority
  std::vector<int> sizes_;                   // tasks of each priority
  std::list<WaitingTask> by_age_;            // the longest in line first
  absl::flat_hash_map<TaskId, std::list<WaitingTask>::iterator> by_id_;
  WeightedOrder<WaitingTask*, ByOrder> by_order_;      // weighed by their images
  absl::btree_set<WaitingTask*, ByExpiry> by_expiry_;  // those that can expire
  absl::flat_hash_map<uint64_t, Line> by_shape_;       // only shapes that are in line
};

}  // namespace fovea
