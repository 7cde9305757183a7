// The threads of the scheduler, on a clock that the test moves. What is decided is tested in
// dispatcher_test.cc.
#include "server/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/testing/fake_clock.h"
#include "server/core/testing/notification.h"
#include "tests/server/scheduler/fake_task.h"

namespace fovea {
namespace {

using testing::ElementsAre;

constexpr Nanos kMs = kMillisecond;

RunOutcome RunAll(std::unique_ptr<Batch> batch) {
  for (auto& task : batch->tasks) RecordOf(*task).Run();
  return RunOutcome::kWhole;
}

class SchedulerTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Make({});
  }
  void Make(const SchedulerOptions& options) {
    scheduler_.reset();
    absl::StatusOr<std::unique_ptr<Scheduler>> made = Scheduler::Create(options, clock_);
    ASSERT_TRUE(made.ok()) << made.status();
    scheduler_ = *std::move(made);
  }
  std::unique_ptr<ModelQueue> Add(ModelQueueOptions options, BatchCallback run = RunAll) {
    absl::StatusOr<std::unique_ptr<ModelQueue>> queue =
        scheduler_->AddModel(std::move(options), std::move(run));
    EXPECT_TRUE(queue.ok()) << queue.status();
    return *std::move(queue);
  }
  std::shared_ptr<TaskRecord> MakeRecord(Nanos deadline = kNever) {
    auto record = std::make_shared<TaskRecord>();
    record->arrival = clock_.Now();
    record->deadline = deadline;
    return record;
  }
  Ticket Submit(ModelQueue& queue, const std::shared_ptr<TaskRecord>& record) {
    absl::StatusOr<Reservation> place =
        queue.Reserve({.images = record->images, .deadline = record->deadline});
    EXPECT_TRUE(place.ok()) << place.status();
    const Ticket ticket = place->ticket();
    ModelQueue::Enqueue(*std::move(place), std::make_unique<FakeTask>(record));
    return ticket;
  }

  FakeClock clock_;
  std::unique_ptr<Scheduler> scheduler_;
};

// Runs batches only when it is told to, and says when it has begun one. For a model of one
// instance.
class Gate {
 public:
  BatchCallback Callback() {
    return [this](std::unique_ptr<Batch> batch) {
      entered_.Notify();
      opened_.Wait();
      return RunAll(std::move(batch));
    };
  }
  void AwaitEntered() { entered_.Wait(); }
  void Open() { opened_.Notify(); }

 private:
  Notification entered_;
  Notification opened_;
};

TEST_F(SchedulerTest, RunsATask) {
  auto queue = Add({.max_batch_size = 8});
  auto task = MakeRecord();
  Submit(*queue, task);
  task->AwaitEnd();
  EXPECT_EQ(task->runs, 1);
}

TEST_F(SchedulerTest, RunsEachInstanceOnItsOwnThreadWhichWasPreparedFirst) {
  Make({.device_threads = 2});
  Mutex mutex;
  std::map<int, std::thread::id> prepared;
  std::map<int, std::thread::id> ran;
  std::atomic<int> inside{0};
  auto queue = Add({.max_batch_size = 1,
                    .instances = 2,
                    .on_thread_start =
                        [&](int instance) {
                          MutexLock lock(mutex);
                          prepared[instance] = std::this_thread::get_id();
                        }},
                   [&](std::unique_ptr<Batch> batch) {
                     {
                       MutexLock lock(mutex);
                       ran[batch->instance] = std::this_thread::get_id();
                     }
                     ++inside;
                     inside.notify_all();
                     while (inside < 2) inside.wait(1);  // both run side by side
                     return RunAll(std::move(batch));
                   });
  std::vector<std::shared_ptr<TaskRecord>> tasks = {MakeRecord(), MakeRecord()};
  for (const auto& task : tasks) Submit(*queue, task);
  for (const auto& task : tasks) task->AwaitEnd();
  MutexLock lock(mutex);
  EXPECT_EQ(prepared, ran);
  EXPECT_EQ(ran.size(), 2u);
  EXPECT_NE(ran[0], ran[1]);
}

TEST_F(SchedulerTest, TellsAnInstanceOnItsThreadThatItHasHadNothingToRunForLong) {
  constexpr int kWaiters = 2;  // the instance and the thread for time
  Mutex mutex;
  CondVar changed;
  std::vector<std::string> events;
  std::vector<std::thread::id> threads;
  const auto note = [&](const std::string& event) {
    MutexLock lock(mutex);
    events.push_back(event);
    threads.push_back(std::this_thread::get_id());
    changed.NotifyAll();
  };
  const auto await = [&](size_t count) {
    MutexLock lock(mutex);
    while (events.size() < count) changed.Wait(mutex);
  };
  auto queue = Add(
      {.max_batch_size = 1, .on_thread_idle = [&](int) { note("idle"); }, .idle_after_us = 5'000},
      [&](std::unique_ptr<Batch> batch) {
        note("batch");
        return RunAll(std::move(batch));
      });
  clock_.AwaitWaiters(kWaiters);
  clock_.Advance(4 * kMs);
  for (int i = 0; i < 2; ++i) {
    auto task = MakeRecord();
    Submit(*queue, task);
    task->AwaitEnd();
    clock_.AwaitWaiters(kWaiters);
    clock_.Advance(4 * kMs);  // not long enough: it starts anew after each batch
  }
  clock_.Advance(1 * kMs);
  await(3);
  Submit(*queue, MakeRecord());
  await(4);
  clock_.AwaitWaiters(kWaiters);
  clock_.Advance(5 * kMs);
  await(5);
  MutexLock lock(mutex);
  EXPECT_THAT(events, ElementsAre("batch", "batch", "idle", "batch", "idle"));
  EXPECT_THAT(threads, testing::Each(threads[0]));
}

TEST_F(SchedulerTest, StartsTheBatchWhenTheDelayIsOver) {
  std::vector<int> sizes;
  auto queue =
      Add({.max_batch_size = 8, .max_queue_delay_us = 5'000}, [&](std::unique_ptr<Batch> batch) {
        sizes.push_back(batch->images);
        return RunAll(std::move(batch));
      });
  auto first = MakeRecord();
  auto second = MakeRecord();
  Submit(*queue, first);
  clock_.Advance(4 * kMs);
  Submit(*queue, second);
  EXPECT_EQ(first->ends(), 0);
  clock_.Advance(1 * kMs);
  first->AwaitEnd();
  second->AwaitEnd();
  EXPECT_THAT(sizes, ElementsAre(2));
}

TEST_F(SchedulerTest, DropsAnExpiredTaskAtItsDeadlineWhileTheDeviceIsBusy) {
  Gate gate;
  auto queue = Add({.max_batch_size = 8}, gate.Callback());
  auto running = MakeRecord();
  Submit(*queue, running);
  gate.AwaitEntered();
  auto late = MakeRecord(clock_.Now() + 5 * kMs);
  Submit(*queue, late);
  clock_.Advance(5 * kMs - 1);
  EXPECT_EQ(late->ends(), 0);
  clock_.Advance(1);
  late->AwaitEnd();  // nobody else does anything
  EXPECT_EQ(late->drops, 1);
  EXPECT_EQ(late->why.code(), absl::StatusCode::kDeadlineExceeded);
  gate.Open();
  running->AwaitEnd();
}

TEST_F(SchedulerTest, WakesForTheEarliestOfSeveralDeadlines) {
  Gate gate;
  auto queue = Add({.max_batch_size = 8}, gate.Callback());
  Submit(*queue, MakeRecord());
  gate.AwaitEntered();
  auto later = MakeRecord(clock_.Now() + 9 * kMs);
  auto sooner = MakeRecord(clock_.Now() + 3 * kMs);
  Submit(*queue, later);
  Submit(*queue, sooner);  // the thread for time was already asleep until the other one
  clock_.Advance(3 * kMs);
  sooner->AwaitEnd();
  EXPECT_EQ(later->ends(), 0);
  clock_.Advance(6 * kMs);
  later->AwaitEnd();
  gate.Open();
}

TEST_F(SchedulerTest, DropsACancelledTaskOnTheThreadThatCancels) {
  Gate gate;
  auto queue = Add({.max_batch_size = 8}, gate.Callback());
  Submit(*queue, MakeRecord());
  gate.AwaitEntered();
  auto gone = MakeRecord();
  const Ticket ticket = Submit(*queue, gone);
  ticket.NotifyCancelled();  // it is not cancelled: nothing happens
  EXPECT_EQ(gone->ends(), 0);
  gone->cancelled = true;
  ticket.NotifyCancelled();
  EXPECT_EQ(gone->drops, 1);
  EXPECT_EQ(gone->why.code(), absl::StatusCode::kCancelled);
  ticket.NotifyCancelled();  // it is gone: nothing happens
  Ticket().NotifyCancelled();
  gate.Open();
}

TEST_F(SchedulerTest, HoldsNoLockWhileATaskIsDroppedOrABatchIsRun) {
  // Both callbacks use the queue again, as a request does that is followed by the next on the same
  // thread.
  class Restless final : public Task {
   public:
    Restless(std::function<void()> on_drop) : on_drop_(std::move(on_drop)) {}
    int images() const override { return 1; }
    uint64_t shape_key() const override { return 0; }
    int priority() const override { return 0; }
    Nanos arrival() const override { return 0; }
    Nanos timeout() const override { return kNever; }
    Nanos deadline() const override { return kNever; }
    bool Cancelled() const override { return true; }
    void Drop(std::unique_ptr<Task>, absl::Status) override { on_drop_(); }

   private:
    std::function<void()> on_drop_;
  };
  ModelQueue* self = nullptr;
  auto after_run = MakeRecord();
  auto after_drop = MakeRecord();
  auto queue = Add({.max_batch_size = 1}, [&](std::unique_ptr<Batch> batch) {
    if (&RecordOf(*batch->tasks[0]) != after_run.get()) Submit(*self, after_run);
    return RunAll(std::move(batch));
  });
  self = queue.get();
  absl::StatusOr<Reservation> place = queue->Reserve({});
  ASSERT_TRUE(place.ok());
  ModelQueue::Enqueue(*std::move(place),
                      std::make_unique<Restless>([&] { Submit(*self, after_drop); }));
  after_drop->AwaitEnd();
  after_run->AwaitEnd();
}

TEST_F(SchedulerTest, DestroyingAQueueRunsWhatItHasAccepted) {
  Gate gate;
  auto queue = Add({.max_batch_size = 4, .max_queue_delay_us = 1'000'000}, gate.Callback());
  std::vector<std::shared_ptr<TaskRecord>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(MakeRecord());
  for (const auto& task : tasks) Submit(*queue, task);
  gate.AwaitEntered();
  gate.Open();
  queue.reset();
  for (const auto& task : tasks) EXPECT_EQ(task->runs, 1);
}

TEST_F(SchedulerTest, DestroyingAQueueWaitsForRequestsThatHaveAPlace) {
  auto queue = Add({.max_batch_size = 4});
  std::optional<Reservation> place = *queue->Reserve({});
  auto decoded = MakeRecord();
  std::thread decoder([&] {
    clock_.AwaitWaiters(3);  // the instance, the thread for time, and whoever drains
    ModelQueue::Enqueue(*std::move(place), std::make_unique<FakeTask>(decoded));
  });
  queue.reset();
  EXPECT_EQ(decoded->runs, 1);
  decoder.join();
}

TEST_F(SchedulerTest, DestroyingAQueueGivesTheRestBackWhenItsTimeIsOver) {
  Gate gate;
  auto queue = Add({.max_batch_size = 1, .drain_timeout_us = 7'000}, gate.Callback());
  auto running = MakeRecord();
  auto waiting = MakeRecord();
  Submit(*queue, running);
  gate.AwaitEntered();
  Submit(*queue, waiting);
  absl::StatusOr<Reservation> place = queue->Reserve({});
  std::thread destroyer([&] { queue.reset(); });
  clock_.AwaitWaiters(2);  // the thread for time and the destroyer
  EXPECT_EQ(waiting->ends(), 0);
  clock_.Advance(7 * kMs);
  waiting->AwaitEnd();
  EXPECT_EQ(waiting->drops, 1);
  EXPECT_EQ(waiting->why.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(waiting->why), "queue.draining");
  EXPECT_EQ(running->ends(), 0);  // what runs is run to its end
  gate.Open();
  destroyer.join();
  EXPECT_EQ(running->runs, 1);

  // The place outlived its queue, and outlives the scheduler.
  auto too_late = MakeRecord();
  scheduler_.reset();
  place->ticket().NotifyCancelled();
  ModelQueue::Enqueue(*std::move(place), std::make_unique<FakeTask>(too_late));
  EXPECT_EQ(too_late->drops, 1);
  EXPECT_EQ(ReasonOf(too_late->why), "queue.draining");
}

TEST_F(SchedulerTest, DrainTellsWhetherEverythingWasRunInTime) {
  auto idle = Add({.max_batch_size = 1});
  EXPECT_TRUE(idle->Drain(clock_.Now() + kSecond).ok());
  EXPECT_TRUE(idle->Drain(clock_.Now()).ok());  // a second time
  EXPECT_EQ(ReasonOf(idle->Reserve({}).status()), "queue.draining");

  Gate gate;
  auto busy = Add({.max_batch_size = 1}, gate.Callback());
  Submit(*busy, MakeRecord());
  gate.AwaitEntered();
  auto waiting = MakeRecord();
  Submit(*busy, waiting);
  absl::Status drained;
  std::thread drainer([&] { drained = busy->Drain(clock_.Now()); });
  waiting->AwaitEnd();
  EXPECT_EQ(waiting->drops, 1);
  gate.Open();
  drainer.join();
  EXPECT_EQ(drained.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SchedulerTest, AQueueThatDrainsDoesNotDisturbItsSuccessor) {
  Gate gate;
  auto old_version = Add({.name = "model", .max_batch_size = 1}, gate.Callback());
  auto before = MakeRecord();
  Submit(*old_version, before);
  gate.AwaitEntered();
  auto new_version = Add({.name = "model", .max_batch_size = 1});
  std::thread unloader([&] { old_version.reset(); });
  auto after = MakeRecord();
  Submit(*new_version, after);  // waits for the device, and then runs
  EXPECT_EQ(after->ends(), 0);
  gate.Open();
  after->AwaitEnd();
  unloader.join();
  EXPECT_EQ(before->runs, 1);
  EXPECT_EQ(after->runs, 1);
}

TEST_F(SchedulerTest, ReportsItsDepth) {
  Gate gate;
  auto queue = Add({.max_batch_size = 1}, gate.Callback());
  Submit(*queue, MakeRecord());
  gate.AwaitEntered();
  Submit(*queue, MakeRecord());
  absl::StatusOr<Reservation> place = queue->Reserve({});
  ModelQueue::Depth depth = queue->depth();
  EXPECT_EQ(depth.running, 1);
  EXPECT_EQ(depth.waiting, 1);
  EXPECT_EQ(depth.reserved, 1);
  *place = *queue->Reserve({});  // the first is given up
  EXPECT_EQ(queue->depth().reserved, 1);
  gate.Open();
}

TEST_F(SchedulerTest, RefusesOptionsThatMakeNoSense) {
  EXPECT_EQ(Scheduler::Create({.device_threads = 0}, clock_).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(scheduler_->AddModel({.threads_per_batch = {2}}, RunAll).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SchedulerTest, EndsTheProcessWhereAQueueWouldWaitForItself) {
  EXPECT_DEATH(
      {
        std::unique_ptr<ModelQueue> queue;
        queue = Add({}, [&](std::unique_ptr<Batch> batch) {
          const RunOutcome outcome = RunAll(std::move(batch));
          queue.reset();
          return outcome;
        });
        auto task = MakeRecord();
        Submit(*queue, task);
        Notification().Wait();
      },
      "check failed");
}

}  // namespace
}  // namespace fovea
