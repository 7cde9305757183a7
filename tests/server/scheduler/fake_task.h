// Tasks that write down what becomes of them.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/core/clock.h"
#include "server/scheduler/task.h"

namespace fovea {

// What a test says of a task, and what became of it. Outlives the task.
struct TaskRecord {
  int images = 1;
  uint64_t shape_key = 0;
  int priority = 0;
  Nanos arrival = 0;
  Nanos timeout = kNever;
  Nanos deadline = kNever;
  int number = 0;  // the test's own

  std::atomic<bool> cancelled{false};
  // The caller cancels just before the scheduler asks for this time, counted from 1; 0: it does
  // not.
  int cancelled_before_look = 0;
  int looks = 0;
  std::atomic<int> runs{0};
  std::atomic<int> drops{0};
  absl::Status why;  // of the drop; written before it is counted

  void Run() { Count(runs); }
  void Drop(absl::Status reason) {
    why = std::move(reason);
    Count(drops);
  }
  int ends() const { return ends_; }
  // Blocks until the task was run or dropped.
  void AwaitEnd() const { ends_.wait(0); }

 private:
  void Count(std::atomic<int>& which) {
    ++which;
    ++ends_;
    ends_.notify_all();
  }

  std::atomic<int> ends_{0};
};

class FakeTask final : public Task {
 public:
  explicit FakeTask(std::shared_ptr<TaskRecord> record) : record_(std::move(record)) {}

  TaskRecord& record() { return *record_; }

  int images() const override { return record_->images; }
  uint64_t shape_key() const override { return record_->shape_key; }
  int priority() const override { return record_->priority; }
  Nanos arrival() const override { return record_->arrival; }
  Nanos timeout() const override { return record_->timeout; }
  Nanos deadline() const override { return record_->deadline; }
  bool Cancelled() const override {
    if (record_->cancelled_before_look > 0 && ++record_->looks == record_->cancelled_before_look) {
      record_->cancelled = true;
    }
    return record_->cancelled;
  }
  void Drop(std::unique_ptr<Task> self, absl::Status why) override {
    record_->Drop(std::move(why));
    self.reset();
  }

 private:
  const std::shared_ptr<TaskRecord> record_;
};

inline TaskRecord& RecordOf(Task& task) { return static_cast<FakeTask&>(task).record(); }

}  // namespace fovea
