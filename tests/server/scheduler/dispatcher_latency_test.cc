// What the dispatcher learns from runs, and what it counts of those that nobody waited for.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "server/scheduler/dispatcher.h"
#include "tests/server/scheduler/counts.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;

// Without threads or a simulation: a batch of one task, run for `took` with this outcome.
void RunOnce(Dispatcher& dispatcher, QueueId queue, RunOutcome outcome, Nanos took, Nanos now) {
  const TaskId place = *dispatcher.Reserve(queue, {}, now);
  dispatcher.Enqueue(queue, place, std::make_unique<FakeTask>(std::make_shared<TaskRecord>()), now);
  Dispatcher::Work work = dispatcher.Next(now);
  ASSERT_EQ(work.starts.size(), 1u);
  work.starts[0].batch->MoveTo(BatchState::kRunning);
  dispatcher.Done(queue, work.starts[0].batch->instance, outcome, took, now + took);
}

TEST(DispatcherCurveTest, LearnsFromWholeRunsOnly) {
  Dispatcher dispatcher{{}};
  const QueueId queue = dispatcher.AddQueue({});
  RunOnce(dispatcher, queue, RunOutcome::kWhole, 10 * kMs, kSecond);
  for (int i = 1; i <= 50; ++i) {  // cancelled in mid-run
    RunOnce(dispatcher, queue, RunOutcome::kBroken, 1 * kMs, kSecond + i * 20 * kMs);
  }
  const Nanos now = 3 * kSecond;
  EXPECT_EQ(dispatcher.LeastRunTime(queue, {1}, now), 10 * kMs);
  EXPECT_EQ(dispatcher.LeastRunTime(queue, {1}, now + LatencyModel::kTrust), 0);
}

TEST(DispatcherCancelledWorkTest, OfAStoppedBatchTheRestOfItsForecastIsSaved) {
  Dispatcher dispatcher{{}};
  Counts counts;
  const QueueId queue = dispatcher.AddQueue({.observer = &counts});
  RunOnce(dispatcher, queue, RunOutcome::kStopped, 1 * kMs, kSecond);
  EXPECT_EQ(counts.saved_, 0);  // nobody knows what it would have taken
  RunOnce(dispatcher, queue, RunOutcome::kWhole, 10 * kMs, 2 * kSecond);
  EXPECT_EQ(counts.saved_, 0);
  RunOnce(dispatcher, queue, RunOutcome::kStopped, 3 * kMs, 3 * kSecond);
  EXPECT_EQ(counts.saved_, 7 * kMs);
  RunOnce(dispatcher, queue, RunOutcome::kStopped, 30 * kMs, 4 * kSecond);
  RunOnce(dispatcher, queue, RunOutcome::kBroken, 3 * kMs, 5 * kSecond);
  EXPECT_EQ(counts.saved_, 7 * kMs);
  EXPECT_EQ(dispatcher.LeastRunTime(queue, {1}, 6 * kSecond), 10 * kMs);  // it learnt of one run
}

TEST(DispatcherCancelledWorkTest, OfATaskThatLeavesTheLineItsShareOfAFullBatchIsSaved) {
  Dispatcher dispatcher{{}};
  Counts counts;
  const QueueId queue =
      dispatcher.AddQueue({.max_batch_size = 8, .max_queue_delay_us = 1000, .observer = &counts});
  dispatcher.RecordLatency(queue, {.images = 8}, 16 * kMs, kSecond);
  const auto enqueue = [&](Nanos deadline, Nanos now) {
    auto record = std::make_shared<TaskRecord>();
    record->deadline = deadline;
    const TaskId id = *dispatcher.Reserve(queue, {.deadline = deadline}, now);
    dispatcher.Enqueue(queue, id, std::make_unique<FakeTask>(record), now);
    return std::pair(id, record);
  };
  const auto [cancelled, record] = enqueue(kNever, kSecond);
  record->cancelled = true;
  dispatcher.NotifyCancelled(queue, cancelled);
  EXPECT_EQ(counts.saved_, 2 * kMs);
  enqueue(kSecond + 100 * kMs, kSecond);
  dispatcher.Next(kSecond + 100 * kMs);  // it has expired
  EXPECT_EQ(counts.dropped_["deadline"], 1);
  EXPECT_EQ(counts.saved_, 4 * kMs);
  enqueue(kNever, kSecond + 200 * kMs);
  dispatcher.Stop(queue);  // the server's own doing: nobody has saved anything
  EXPECT_EQ(counts.dropped_["draining"], 1);
  EXPECT_EQ(counts.saved_, 4 * kMs);
}

}  // namespace
}  // namespace fovea
