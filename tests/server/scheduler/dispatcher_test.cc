#include "server/scheduler/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/server/scheduler/counts.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Nanos kMs = kMillisecond;

// Runs take 1 ms and 1 ms for each image.
Nanos Cost(const Batch& batch) { return (1 + batch.images) * kMs; }

// What was started, in order.
struct Started {
  QueueId queue;
  int images;
  CloseReason why;
  int instance;
  Nanos at;  // since the start of the test
};

class DispatcherTest : public testing::Test {
 protected:
  void Make(const SchedulerOptions& options = {}) {
    simulation_ = std::make_unique<Simulation>(options);
    start_ = simulation_->now();
    simulation_->on_start = [this](QueueId queue, const Batch& batch) {
      started_.push_back({queue, batch.images, batch.why, batch.instance, Now()});
      EXPECT_EQ(batch.closed_at, simulation_->now());
      for (const auto& task : batch.tasks) {
        EXPECT_FALSE(task->Cancelled());
        EXPECT_GT(task->deadline(), simulation_->now());
      }
    };
    simulation_->on_drop = [this](const Dispatcher::Dropped&) { dropped_at_.push_back(Now()); };
  }
  QueueId Add(const ModelQueueOptions& options) { return simulation_->AddModel(options, Cost); }
  Nanos Now() const { return simulation_->now() - start_; }

  // Submits a task at a time since the start; deadlines too count from there.
  std::shared_ptr<TaskRecord> At(Nanos when, QueueId queue, Nanos deadline = kNever,
                                 int images = 1) {
    auto record = std::make_shared<TaskRecord>();
    record->images = images;
    record->arrival = start_ + when;
    record->deadline = deadline == kNever ? kNever : start_ + deadline;
    simulation_->At(start_ + when, [this, queue, record] {
      absl::StatusOr<TaskId> id = simulation_->Submit(queue, record);
      if (id.ok()) ids_[record.get()] = *id;
      results_[record.get()] = id.status();
    });
    return record;
  }
  void CancelAt(Nanos when, QueueId queue, const std::shared_ptr<TaskRecord>& record) {
    simulation_->At(start_ + when, [this, queue, record] {
      simulation_->Cancel(queue, ids_.at(record.get()), *record);
    });
  }
  std::vector<int> Sizes() const {
    std::vector<int> sizes;
    for (const Started& one : started_) sizes.push_back(one.images);
    return sizes;
  }
  std::vector<Nanos> Times() const {
    std::vector<Nanos> times;
    for (const Started& one : started_) times.push_back(one.at);
    return times;
  }

  std::unique_ptr<Simulation> simulation_;
  Nanos start_ = 0;
  std::vector<Started> started_;
  std::vector<Nanos> dropped_at_;
  std::map<const TaskRecord*, TaskId> ids_;
  std::map<const TaskRecord*, absl::Status> results_;
};

TEST_F(DispatcherTest, RunsARequestAtOnceOnAnIdleDevice) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8});
  auto task = At(3 * kMs, queue);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Times(), ElementsAre(3 * kMs));
  EXPECT_EQ(started_[0].why, CloseReason::kIdle);
  EXPECT_EQ(task->runs, 1);
}

TEST_F(DispatcherTest, WaitsForBatchPeersWhileTheDeviceIsBusy) {
  Make();
  const QueueId queue = Add({.max_batch_size = 4});
  At(0, queue);  // busy until 2 ms
  for (int i = 0; i < 6; ++i) At(i * 100 * kMicrosecond, queue);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Sizes(), ElementsAre(1, 4, 2));
  EXPECT_THAT(Times(), ElementsAre(0, 2 * kMs, 7 * kMs));
}

TEST_F(DispatcherTest, WaitsForBatchPeersWhileAnotherModelKeepsTheDeviceBusy) {
  Make();
  const QueueId first = Add({.max_batch_size = 4});
  const QueueId second = Add({.max_batch_size = 4});
  At(0, first);
  At(1 * kMs, second);
  At(1 * kMs + 1, second);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Sizes(), ElementsAre(1, 2));
}

TEST_F(DispatcherTest, HoldsAnIdleDeviceForTheDelayAndNotLonger) {
  Make();
  const QueueId queue = Add({.max_batch_size = 4, .max_queue_delay_us = 5'000});
  At(0, queue);
  At(4 * kMs, queue);  // does not start the delay anew
  simulation_->RunToTheEnd();
  EXPECT_THAT(Sizes(), ElementsAre(2));
  EXPECT_THAT(Times(), ElementsAre(5 * kMs));
  EXPECT_EQ(started_[0].why, CloseReason::kDelay);
}

TEST_F(DispatcherTest, HoldsAnIdleDeviceNotLongerForSomebodyOfAnotherShape) {
  Make();
  const QueueId queue = Add({.max_batch_size = 4, .max_queue_delay_us = 5'000});
  auto first = At(0, queue, 900 * kMs);
  auto urgent = At(4 * kMs, queue, 500 * kMs);
  first->shape_key = 1;
  simulation_->RunToTheEnd();
  // The urgent one is first in line, but it is the other that has waited for the delay.
  EXPECT_THAT(Times(), ElementsAre(5 * kMs, 7 * kMs));
  EXPECT_EQ(first->runs, 1);
}

TEST_F(DispatcherTest, StartsAFullBatchBeforeTheDelayIsOver) {
  Make();
  const QueueId queue = Add({.max_batch_size = 2, .max_queue_delay_us = 5'000});
  At(0, queue);
  At(1 * kMs, queue);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Times(), ElementsAre(1 * kMs));
  EXPECT_EQ(started_[0].why, CloseReason::kFull);
}

TEST_F(DispatcherTest, StartsAPreferredSizeBeforeTheDelayIsOver) {
  Make();
  const QueueId queue =
      Add({.max_batch_size = 8, .preferred_batch_sizes = {3}, .max_queue_delay_us = 5'000});
  for (int i = 0; i < 4; ++i) At(i * kMs, queue);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Sizes(), ElementsAre(3, 1));
  EXPECT_EQ(started_[0].why, CloseReason::kPreferred);
  EXPECT_THAT(Times(), ElementsAre(2 * kMs, 8 * kMs));
}

TEST_F(DispatcherTest, StartsEarlyEnoughForTheEarliestDeadline) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8, .max_queue_delay_us = 50'000});
  simulation_->dispatcher().RecordLatency(queue, {1}, 2 * kMs, simulation_->now());
  simulation_->dispatcher().RecordLatency(queue, {2}, 3 * kMs, simulation_->now());
  At(0, queue);
  auto urgent = At(1 * kMs, queue, 20 * kMs);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Sizes(), ElementsAre(2));
  EXPECT_THAT(Times(), ElementsAre(17 * kMs));
  EXPECT_EQ(started_[0].why, CloseReason::kDeadline);
  EXPECT_EQ(urgent->runs, 1);
}

TEST_F(DispatcherTest, LeavesLaterTasksOutWhereTheyWouldMakeTheEarliestMissItsDeadline) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8});
  for (int images = 1; images <= 8; ++images) {
    simulation_->dispatcher().RecordLatency(queue, {images}, (1 + images) * kMs,
                                            simulation_->now());
  }
  auto urgent = At(0, queue, 20 * kMs, 8);  // busy until 9 ms
  At(1 * kMs, queue, 13 * kMs);
  for (int i = 0; i < 7; ++i) At(2 * kMs, queue);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Sizes(), ElementsAre(8, 3, 5));  // 4 ms are left, enough for 3 images
  EXPECT_THAT(dropped_at_, IsEmpty());
}

TEST_F(DispatcherTest, Row43ExpiredTaskIsNeverRunAndLeavesAtItsDeadline) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8});
  At(0, queue, kNever, 8);  // busy until 9 ms
  auto late = At(1 * kMs, queue, 5 * kMs);
  simulation_->RunToTheEnd();
  EXPECT_EQ(late->runs, 0);
  EXPECT_EQ(late->drops, 1);
  EXPECT_EQ(late->why.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(late->why), "queue.expired");
  EXPECT_THAT(dropped_at_, ElementsAre(5 * kMs));
}

TEST_F(DispatcherTest, TaskThatExpiresInTheInstantOfItsTurnIsNotRun) {
  Make();
  const QueueId queue = Add({.max_batch_size = 1});
  At(0, queue);  // busy until 2 ms
  auto late = At(1 * kMs, queue, 2 * kMs);
  simulation_->RunToTheEnd();
  EXPECT_EQ(late->runs, 0);
  EXPECT_EQ(late->drops, 1);
}

// docs/faults.md, rows 34 and 35: a caller that goes away, before, at and after each edge of the
// scheduler.
TEST_F(DispatcherTest, Row43CancelledTaskIsNeverRunAndLeavesAtOnce) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8});
  At(0, queue, kNever, 8);  // busy until 9 ms
  auto gone = At(1 * kMs, queue);
  auto stays = At(1 * kMs, queue);
  CancelAt(3 * kMs, queue, gone);
  simulation_->RunToTheEnd();
  EXPECT_EQ(gone->runs, 0);
  EXPECT_EQ(gone->drops, 1);
  EXPECT_EQ(gone->why.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(dropped_at_, ElementsAre(3 * kMs));
  EXPECT_EQ(stays->runs, 1);
}

TEST_F(DispatcherTest, CancelledTaskIsNotRunEvenIfNobodySaidSo) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8});
  At(0, queue);
  auto gone = At(1 * kMs, queue);
  auto stays = At(1 * kMs, queue);
  auto last = At(1 * kMs, queue);
  simulation_->At(start_ + 1 * kMs, [&] {
    gone->cancelled = true;
    last->cancelled = true;
  });
  simulation_->RunToTheEnd();
  EXPECT_EQ(gone->drops, 1);
  EXPECT_EQ(last->drops, 1);
  EXPECT_EQ(last->why.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Sizes(), ElementsAre(1, 1));
  EXPECT_EQ(stays->runs, 1);
}

TEST_F(DispatcherTest, TaskCancelledBeforeItWasInLineIsDroppedThen) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8});
  const TaskId place = *simulation_->dispatcher().Reserve(queue, {}, simulation_->now());
  simulation_->dispatcher().NotifyCancelled(queue, place);  // it still decodes
  auto gone = std::make_shared<TaskRecord>();
  gone->cancelled = true;
  simulation_->dispatcher().Enqueue(queue, place, std::make_unique<FakeTask>(gone),
                                    simulation_->now());
  simulation_->Step();
  EXPECT_EQ(gone->drops, 1);
  EXPECT_EQ(gone->why.code(), absl::StatusCode::kCancelled);
}

TEST_F(DispatcherTest, CancellingATaskThatRunsOrHasRunChangesNothing) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8});
  auto task = At(0, queue);  // until 2 ms
  CancelAt(1 * kMs, queue, task);
  CancelAt(5 * kMs, queue, task);
  simulation_->RunToTheEnd();
  EXPECT_EQ(task->runs, 1);
  EXPECT_EQ(task->drops, 0);
}

TEST_F(DispatcherTest, ATaskThatIsNotCancelledStaysWhateverItsQueueIsTold) {
  Make();
  const QueueId queue = Add({.max_batch_size = 1});
  At(0, queue);
  auto task = At(1 * kMs, queue);
  simulation_->At(start_ + 1 * kMs, [&] {
    simulation_->dispatcher().NotifyCancelled(queue, ids_.at(task.get()));
    simulation_->Step();
  });
  simulation_->RunToTheEnd();
  EXPECT_EQ(task->runs, 1);
}

TEST_F(DispatcherTest, DoesNotSpendTheDeviceOnWhatCannotBeFinishedInTime) {
  Make();
  const QueueId queue = Add({.max_batch_size = 1});
  At(0, queue);  // until 2 ms, and the curve knows then that a run takes 2 ms
  auto hopeless = At(1 * kMs, queue, 3 * kMs);
  auto other = At(1 * kMs, queue);
  simulation_->RunToTheEnd();
  EXPECT_EQ(hopeless->runs, 0);
  EXPECT_EQ(ReasonOf(hopeless->why), "queue.unreachable_deadline");
  EXPECT_EQ(hopeless->why.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Times(), ElementsAre(0, 2 * kMs));
  EXPECT_EQ(other->runs, 1);
}

TEST_F(DispatcherTest, RunsItsInstancesSideBySide) {
  Make({.device_threads = 2});
  const QueueId queue = Add({.max_batch_size = 1, .instances = 2});
  for (int i = 0; i < 3; ++i) At(0, queue);
  simulation_->RunToTheEnd();
  EXPECT_THAT(Times(), ElementsAre(0, 0, 2 * kMs));
  EXPECT_NE(started_[0].instance, started_[1].instance);
}

TEST_F(DispatcherTest, RunsNoMoreThanTheDeviceHasThreadsFor) {
  Make({.device_threads = 3});
  const QueueId wide = Add({.max_batch_size = 1, .instances = 2, .threads_per_batch = {2}});
  const QueueId narrow = Add({.max_batch_size = 1, .instances = 4, .threads_per_batch = {1}});
  int busy = 0;
  int most = 0;
  std::map<QueueId, int> width = {{wide, 2}, {narrow, 1}};
  simulation_->on_start = [&](QueueId queue, const Batch&) {
    busy += width[queue];
    most = std::max(most, busy);
  };
  simulation_->on_done = [&](QueueId queue, const Batch&) { busy -= width[queue]; };
  for (int i = 0; i < 50; ++i) {
    At(i * kMs / 10, wide);
    At(i * kMs / 10, narrow);
  }
  simulation_->RunToTheEnd();
  EXPECT_EQ(most, 3);
  EXPECT_EQ(busy, 0);
}

TEST_F(DispatcherTest, KeepsTheDeviceForAModelThatNeedsAllOfIt) {
  Make({.device_threads = 2});
  const QueueId narrow = Add({.max_batch_size = 1, .instances = 2});
  const QueueId wide = Add({.max_batch_size = 1, .threads_per_batch = {2}});
  // Offset by half a run, so that one of the narrow ones is always under way.
  for (int i = 0; i < 200; ++i) At(i * kMs, narrow);
  auto needs_all = At(10 * kMs + 1, wide);
  simulation_->RunUntil(start_ + 30 * kMs);
  EXPECT_EQ(needs_all->runs, 1);
}

TEST_F(DispatcherTest, ServesTheEarliestDeadlineFirstAndPrioritiesBeforeIt) {
  Make();
  const QueueId queue = Add({.max_batch_size = 1, .policies = {{}, {}}});
  At(0, queue);
  auto relaxed = At(1 * kMs, queue, 500 * kMs);
  auto urgent = At(1 * kMs, queue, 100 * kMs);
  auto vip = At(1 * kMs, queue, 900 * kMs);
  relaxed->number = 3;
  urgent->number = 2;
  vip->number = 1;
  relaxed->priority = urgent->priority = 1;
  std::vector<int> order;
  simulation_->on_done = [&](QueueId, const Batch& batch) {
    order.push_back(RecordOf(*batch.tasks[0]).number);
  };
  simulation_->RunToTheEnd();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST_F(DispatcherTest, TimeoutOfTheQueueIsItsOwnReason) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8, .policies = {{.default_timeout_us = 4'000}}});
  At(0, queue, kNever, 8);  // busy until 9 ms
  auto waited = At(1 * kMs, queue);
  simulation_->RunToTheEnd();
  EXPECT_EQ(ReasonOf(waited->why), "queue.timeout");
  EXPECT_EQ(waited->why.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(dropped_at_, ElementsAre(5 * kMs));
}

// docs/faults.md, row 67.
TEST_F(DispatcherTest, ADelayedTaskIsRunOnlyWhenNothingOfItsPriorityOrAHigherOneWaits) {
  Make();
  const QueuePolicy delay{.timeout_action = TimeoutAction::kDelay, .default_timeout_us = 3'000};
  const QueueId queue = Add({.max_batch_size = 1, .policies = {{}, delay, {}}});
  std::vector<int> order;
  simulation_->on_done = [&](QueueId, const Batch& batch) {
    order.push_back(RecordOf(*batch.tasks[0]).number);
  };
  const auto add = [&](Nanos when, int number, int priority) {
    auto record = At(when, queue);
    record->number = number;
    record->priority = priority;
  };
  add(0, 1, 0);        // runs until 2 ms; the next three wait
  add(0, 2, 0);        // until 4 ms
  add(0, 3, 1);        // times out at 3 ms
  add(0, 4, 2);        // no timeout, a lower priority
  add(3 * kMs, 5, 1);  // newer, and before the delayed one
  simulation_->RunToTheEnd();
  EXPECT_THAT(order, ElementsAre(1, 2, 5, 3, 4));
  EXPECT_THAT(dropped_at_, IsEmpty());
}

TEST_F(DispatcherTest, ALowPriorityHoldsUpAHighOneByTheBatchThatRuns) {
  Make();
  const QueueId queue =
      Add({.max_batch_size = 4, .policies = {{.max_queue_size = 8}, {.max_queue_size = 100}}});
  for (int images = 1; images <= 4; ++images) {
    simulation_->dispatcher().RecordLatency(queue, {images}, (1 + images) * kMs, start_);
  }
  std::vector<std::shared_ptr<TaskRecord>> high;
  for (int i = 0; i < 100; ++i) At(0, queue, 400 * kMs)->priority = 1;
  for (int i = 1; i <= 20; ++i) high.push_back(At(i * 7 * kMs, queue));
  Nanos longest = 0;
  simulation_->on_start = [&](QueueId, const Batch& batch) {
    for (const auto& task : batch.tasks) {
      if (task->priority() > 0) continue;
      longest = std::max(longest, simulation_->now() - task->arrival());
    }
  };
  simulation_->RunToTheEnd();
  for (const auto& record : high) EXPECT_EQ(record->runs, 1);
  EXPECT_LE(longest, 5 * kMs);
  EXPECT_GT(longest, 0) << "the device was not idle";
}

// docs/faults.md, row 46. Steady time stands still while the machine is suspended or jumps when it
// wakes; the wall clock is never read.
TEST_F(DispatcherTest, AJumpOfADayExpiresOnlyWhatHasADeadline) {
  Make();
  const QueueId queue = Add({.max_batch_size = 8, .max_queue_delay_us = 1'000});
  auto lasting = At(0, queue);
  auto dated = At(0, queue, 60 * kSecond);
  simulation_->RunUntil(start_);
  const Nanos day = 86'400 * kSecond;
  Dispatcher::Work work = simulation_->dispatcher().Next(start_ + day);
  ASSERT_EQ(work.drops.size(), 1u);
  EXPECT_EQ(&RecordOf(*work.drops[0].task), dated.get());
  ASSERT_EQ(work.starts.size(), 1u);
  EXPECT_EQ(&RecordOf(*work.starts[0].batch->tasks[0]), lasting.get());
  work.starts[0].batch->MoveTo(BatchState::kRunning);
}

// docs/faults.md, row 44.
TEST_F(DispatcherTest, DrainsWhatHasAPlaceAndTakesNoMore) {
  Make();
  const QueueId queue = Add({.max_batch_size = 4, .max_queue_delay_us = 50'000});
  Dispatcher& dispatcher = simulation_->dispatcher();
  auto waiting = At(0, queue);
  simulation_->RunUntil(start_);
  absl::StatusOr<TaskId> decoding = dispatcher.Reserve(queue, {}, simulation_->now());
  ASSERT_TRUE(decoding.ok());

  dispatcher.Drain(queue);
  simulation_->Step();
  EXPECT_EQ(started_.size(), 1u);  // batch peers are not waited for
  EXPECT_EQ(started_[0].why, CloseReason::kDrain);
  absl::StatusOr<TaskId> refused = dispatcher.Reserve(queue, {}, simulation_->now());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused.status()), "queue.draining");

  auto decoded = std::make_shared<TaskRecord>();
  dispatcher.Enqueue(queue, *decoding, std::make_unique<FakeTask>(decoded), simulation_->now());
  simulation_->RunToTheEnd();
  EXPECT_EQ(waiting->runs, 1);
  EXPECT_EQ(decoded->runs, 1);
  dispatcher.Stop(queue);
  dispatcher.RemoveQueue(queue);
}

TEST_F(DispatcherTest, StopGivesBackWhatWaitsAndWhatStillComes) {
  Make();
  const QueueId queue = Add({.max_batch_size = 1});
  Dispatcher& dispatcher = simulation_->dispatcher();
  auto running = At(0, queue);
  auto waiting = At(0, queue);
  simulation_->RunUntil(start_);
  absl::StatusOr<TaskId> place = dispatcher.Reserve(queue, {}, simulation_->now());
  ASSERT_TRUE(place.ok());

  dispatcher.Stop(queue);
  EXPECT_EQ(dispatcher.state(queue), QueueState::kStopped);
  auto too_late = std::make_shared<TaskRecord>();
  dispatcher.Enqueue(queue, *place, std::make_unique<FakeTask>(too_late), simulation_->now());
  simulation_->Step();
  EXPECT_EQ(waiting->drops, 1);
  EXPECT_EQ(waiting->why.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(too_late->drops, 1);
  EXPECT_DEATH(dispatcher.RemoveQueue(queue), "check failed");  // it still runs a batch

  simulation_->RunToTheEnd();
  EXPECT_EQ(running->runs, 1);
  dispatcher.RemoveQueue(queue);
  dispatcher.Release(queue, *place);  // a place outlives its queue
  dispatcher.NotifyCancelled(queue, *place);
  auto homeless = std::make_shared<TaskRecord>();
  dispatcher.Enqueue(queue, *place, std::make_unique<FakeTask>(homeless), simulation_->now());
  simulation_->Step();
  EXPECT_EQ(ReasonOf(homeless->why), "queue.draining");
}

TEST_F(DispatcherTest, TellsItsObserverWhatHappens) {
  Make();
  Counts counts;
  const QueueId queue =
      Add({.max_batch_size = 2, .policies = {{.max_queue_size = 4}}, .observer = &counts});
  At(0, queue);  // until 2 ms
  auto gone = At(1 * kMs, queue);
  At(1 * kMs, queue, kMs + 500 * kMicrosecond);  // expires
  At(1 * kMs, queue);
  At(1 * kMs, queue);
  At(1 * kMs, queue);             // full
  At(1 * kMs, queue, 1 * kMs);    // dead on arrival
  At(1 * kMs, queue, kNever, 9);  // invalid: not counted here
  CancelAt(1 * kMs, queue, gone);
  simulation_->RunToTheEnd();
  EXPECT_EQ(counts.deepest_, 4);
  EXPECT_EQ(counts.waiting_, 0);
  EXPECT_EQ(counts.reserved_, 0);
  EXPECT_EQ(counts.rejected_, (std::map<std::string_view, int>{{"full", 1}, {"deadline", 1}}));
  EXPECT_EQ(counts.dropped_, (std::map<std::string_view, int>{{"cancelled", 1}, {"deadline", 1}}));
  EXPECT_EQ(counts.closed_, (std::map<std::string_view, int>{{"idle", 1}, {"full", 1}}));
  EXPECT_EQ(counts.images_, 3);
  EXPECT_EQ(counts.busy_, 5 * kMs);
}

TEST(QueueStateTest, GoesOneWayOnly) {
  Dispatcher dispatcher({});
  const QueueId queue = dispatcher.AddQueue({});
  EXPECT_EQ(dispatcher.state(queue), QueueState::kAccepting);
  EXPECT_DEATH(dispatcher.RemoveQueue(queue), "check failed");
  dispatcher.Drain(queue);
  EXPECT_EQ(dispatcher.state(queue), QueueState::kDraining);
  dispatcher.Stop(queue);
  dispatcher.Drain(queue);  // no way back
  EXPECT_EQ(dispatcher.state(queue), QueueState::kStopped);
  EXPECT_FALSE(dispatcher.Reserve(queue, {}, 0).ok());
}

// The scheduler looks at a task when it comes, before the policy decides and when the batch is
// taken.
TEST(DispatcherRaceTest, ACallerMayCancelBetweenAnyTwoLooks) {
  constexpr int kLooks = 3;
  for (int look = 1; look <= kLooks + 1; ++look) {
    for (const int others : {0, 1}) {
      SCOPED_TRACE(testing::Message()
                   << "before look " << look << ", with " << others << " behind");
      Dispatcher dispatcher({.device_threads = 1});
      const QueueId queue = dispatcher.AddQueue({.max_batch_size = 1});
      std::vector<std::shared_ptr<TaskRecord>> records;
      for (int i = 0; i <= others; ++i) {
        records.push_back(std::make_shared<TaskRecord>());
        if (i == 0) records[i]->cancelled_before_look = look;
        const absl::StatusOr<TaskId> id = dispatcher.Reserve(queue, {}, 0);
        ASSERT_TRUE(id.ok());
        dispatcher.Enqueue(queue, *id, std::make_unique<FakeTask>(records[i]), 0);
      }
      const Dispatcher::Work work = dispatcher.Next(0);
      const bool cancelled = look <= kLooks;
      ASSERT_EQ(work.drops.size(), cancelled ? 1u : 0u);
      if (cancelled) {
        EXPECT_EQ(&RecordOf(*work.drops[0].task), records[0].get());
      }
      ASSERT_EQ(work.starts.size(), cancelled && others == 0 ? 0u : 1u);
      for (const Dispatcher::Start& start : work.starts) {
        EXPECT_EQ(&RecordOf(*start.batch->tasks[0]), records[cancelled ? 1 : 0].get());
        start.batch->MoveTo(BatchState::kRunning);
        start.batch->MoveTo(BatchState::kDone);
      }
    }
  }
}

}  // namespace
}  // namespace fovea
