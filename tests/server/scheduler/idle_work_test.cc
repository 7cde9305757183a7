// Tasks that are only for an idle device: they never run beside anything else, and nothing waits
// for them (docs/faults.md, row 90).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/scheduler/dispatcher.h"
#include "tests/server/scheduler/counts.h"
#include "tests/server/scheduler/fake_task.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;

class IdleTask final : public Task {
 public:
  IdleTask(std::shared_ptr<TaskRecord> record, CancellationPtr cancellation)
      : record_(std::move(record)), cancellation_(std::move(cancellation)) {}
  int images() const override { return 1; }
  uint64_t shape_key() const override { return 0; }
  int priority() const override { return 0; }
  Nanos arrival() const override { return 0; }
  Nanos timeout() const override { return kNever; }
  Nanos deadline() const override { return kNever; }
  bool Cancelled() const override { return cancellation_->Cancelled(); }
  CancellationPtr idle_only() const override { return cancellation_; }
  void Drop(std::unique_ptr<Task> self, absl::Status why) override {
    record_->Drop(std::move(why));
    self.reset();
  }

 private:
  const std::shared_ptr<TaskRecord> record_;
  const CancellationPtr cancellation_;
};

class IdleWorkTest : public testing::Test {
 protected:
  absl::StatusOr<TaskId> ReserveIdle(QueueId queue) {
    return dispatcher_.Reserve(queue, {.idle_only = true}, now_);
  }
  void EnqueueIdle(QueueId queue, TaskId id) {
    dispatcher_.Enqueue(queue, id, std::make_unique<IdleTask>(record_, cancellation_), now_);
  }
  TaskId Reserve(QueueId queue, Nanos deadline = kNever) {
    return *dispatcher_.Reserve(queue, {.deadline = deadline}, now_);
  }
  void Enqueue(QueueId queue, TaskId id) {
    dispatcher_.Enqueue(queue, id, std::make_unique<FakeTask>(std::make_shared<TaskRecord>()),
                        now_);
  }
  // What was started, whose yields were cancelled; drops are given back.
  decltype(Dispatcher::Work::starts) Next() {
    Dispatcher::Work work = dispatcher_.Next(now_);
    for (const CancellationPtr& yields : work.yields) yields->Cancel();
    for (Dispatcher::Dropped& dropped : work.drops) {
      Task& task = *dropped.task;
      task.Drop(std::move(dropped.task), std::move(dropped.why));
    }
    for (Dispatcher::Start& start : work.starts) start.batch->MoveTo(BatchState::kRunning);
    return std::move(work.starts);
  }
  std::string DropReason() const { return record_->drops == 1 ? ReasonOf(record_->why) : ""; }

  Counts counts_;
  Dispatcher dispatcher_{{.device_threads = 2}};
  const QueueId queue_ = dispatcher_.AddQueue({.observer = &counts_});
  const QueueId other_ = dispatcher_.AddQueue({});
  const std::shared_ptr<TaskRecord> record_ = std::make_shared<TaskRecord>();
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();
  Nanos now_ = kSecond;
};

TEST_F(IdleWorkTest, RunsOnAnIdleDevice) {
  EXPECT_TRUE(dispatcher_.idle());
  const TaskId id = *ReserveIdle(queue_);
  EXPECT_FALSE(dispatcher_.idle());
  EXPECT_EQ(ReasonOf(ReserveIdle(other_).status()), "queue.not_idle") << "one at a time";
  EnqueueIdle(queue_, id);
  const auto starts = Next();
  ASSERT_EQ(starts.size(), 1u);
  dispatcher_.Done(queue_, 0, RunOutcome::kWhole, kMs, now_ += kMs);
  EXPECT_TRUE(Next().empty());
  EXPECT_TRUE(dispatcher_.idle());
  EXPECT_TRUE(ReserveIdle(other_).ok());
  EXPECT_TRUE(counts_.rejected_.empty() && counts_.dropped_.empty());
}

// The device has two threads and each model takes one: there would be room.
TEST_F(IdleWorkTest, IsRefusedWhileAnythingRunsWaitsOrIsOnItsWay) {
  const TaskId id = Reserve(other_);
  EXPECT_EQ(ReasonOf(ReserveIdle(queue_).status()), "queue.not_idle");
  Enqueue(other_, id);
  EXPECT_EQ(ReasonOf(ReserveIdle(queue_).status()), "queue.not_idle");
  ASSERT_EQ(Next().size(), 1u);
  EXPECT_EQ(ReasonOf(ReserveIdle(queue_).status()), "queue.not_idle");
  EXPECT_TRUE(counts_.rejected_.empty()) << "callers were refused nothing";
  dispatcher_.Done(other_, 0, RunOutcome::kWhole, kMs, now_ += kMs);
  EXPECT_TRUE(ReserveIdle(queue_).ok());
}

TEST_F(IdleWorkTest, WhatIsOnItsWayMakesWay) {
  const TaskId idle = *ReserveIdle(queue_);
  const TaskId id = Reserve(other_);
  EnqueueIdle(queue_, idle);
  EXPECT_TRUE(Next().empty()) << "it is not run before what comes";
  EXPECT_EQ(DropReason(), "queue.not_idle");
  EXPECT_TRUE(counts_.dropped_.empty());
  Enqueue(other_, id);
  EXPECT_EQ(Next().size(), 1u);
}

TEST_F(IdleWorkTest, WhatIsOnItsWayLeavesItsPlaceToACaller) {
  const QueueId small = dispatcher_.AddQueue({.policies = {{.max_queue_size = 1}}});
  const TaskId idle = *ReserveIdle(small);
  const auto place = dispatcher_.Reserve(small, {}, now_);
  ASSERT_TRUE(place.ok()) << place.status();
  dispatcher_.Release(small, *place);
  EXPECT_TRUE(dispatcher_.idle());
  EXPECT_EQ(ReasonOf(ReserveIdle(other_).status()), "queue.not_idle") << "still one at a time";
  EnqueueIdle(small, idle);
  EXPECT_TRUE(Next().empty());
  EXPECT_EQ(DropReason(), "queue.not_idle");
  EXPECT_TRUE(ReserveIdle(other_).ok());
}

TEST_F(IdleWorkTest, WhatIsInLineMakesWay) {
  // It waits for batch peers.
  const QueueId slow = dispatcher_.AddQueue({.max_batch_size = 8, .max_queue_delay_us = 10'000});
  const TaskId idle = *ReserveIdle(slow);
  EnqueueIdle(slow, idle);
  EXPECT_TRUE(Next().empty());
  const TaskId id = Reserve(slow);
  EXPECT_TRUE(dispatcher_.yielding());
  EXPECT_TRUE(Next().empty());
  EXPECT_EQ(DropReason(), "queue.not_idle") << "it shares no batch with a caller's";
  Enqueue(slow, id);
  now_ += 10 * kMs;
  const auto starts = Next();
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].batch->images, 1);
}

TEST_F(IdleWorkTest, WhatRunsIsAskedToStopOnce) {
  const TaskId idle = *ReserveIdle(queue_);
  EnqueueIdle(queue_, idle);
  ASSERT_EQ(Next().size(), 1u);
  EXPECT_FALSE(cancellation_->Cancelled());
  const TaskId first = Reserve(queue_);
  EXPECT_TRUE(dispatcher_.yielding());
  Next();
  EXPECT_TRUE(cancellation_->Cancelled());
  EXPECT_EQ(record_->drops, 0) << "its run ends it";
  Reserve(other_);
  EXPECT_FALSE(dispatcher_.yielding());
  dispatcher_.Done(queue_, 0, RunOutcome::kStopped, kMs, now_ += kMs);
  Enqueue(queue_, first);
  EXPECT_EQ(Next().size(), 1u);
  EXPECT_EQ(counts_.saved_, 0) << "nobody has waited for it";
}

TEST_F(IdleWorkTest, KeepsNoCallerFromItsDeadline) {
  // A run takes 10 ms, measured often enough.
  for (int i = 0; i < 50; ++i) dispatcher_.RecordLatency(queue_, {}, 10 * kMs, now_);
  const TaskId idle = *ReserveIdle(queue_);
  EnqueueIdle(queue_, idle);
  ASSERT_EQ(Next().size(), 1u);
  EXPECT_TRUE(dispatcher_.Reserve(queue_, {.deadline = now_ + 15 * kMs}, now_).ok())
      << "what makes way is no reason to refuse";
}

TEST_F(IdleWorkTest, GivenUpItLeavesItsPlace) {
  const TaskId idle = *ReserveIdle(queue_);
  dispatcher_.Release(queue_, idle);
  EXPECT_TRUE(dispatcher_.idle());
  const TaskId again = *ReserveIdle(queue_);
  cancellation_->Cancel();
  EnqueueIdle(queue_, again);
  Next();
  EXPECT_EQ(DropReason(), "queue.cancelled");
  EXPECT_TRUE(ReserveIdle(queue_).ok());
}

TEST_F(IdleWorkTest, KeepsNoQueueFromDraining) {
  const TaskId idle = *ReserveIdle(queue_);
  EnqueueIdle(queue_, idle);
  ASSERT_EQ(Next().size(), 1u);
  dispatcher_.Drain(queue_);
  Next();
  EXPECT_TRUE(cancellation_->Cancelled());
  dispatcher_.Done(queue_, 0, RunOutcome::kStopped, kMs, now_ += kMs);
  dispatcher_.Stop(queue_);
  EXPECT_TRUE(ReserveIdle(other_).ok());
}

TEST_F(IdleWorkTest, AQueueThatStopsForgetsIt) {
  const TaskId idle = *ReserveIdle(queue_);
  dispatcher_.Stop(queue_);
  EnqueueIdle(queue_, idle);
  Next();
  EXPECT_EQ(DropReason(), "queue.draining");
  EXPECT_TRUE(ReserveIdle(other_).ok());
}

}  // namespace
}  // namespace fovea
