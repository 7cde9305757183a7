#include "server/compare/held_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/server/scheduler/fake_task.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr int kThreads = 2;

class HeldLaneTest : public testing::Test {
 protected:
  std::unique_ptr<Scheduler> scheduler_ =
      *Scheduler::Create({.device_threads = kThreads}, SteadyClock());
  std::unique_ptr<HeldLane> lane_ =
      *HeldLane::Create({.device_threads = kThreads}, *scheduler_, SteadyClock());
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();
};

TEST_F(HeldLaneTest, RunsWorkOnOneThreadAndReturnsWhenItIsDone) {
  std::vector<std::thread::id> ran_on;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        lane_->Run(cancellation_, [&] { ran_on.push_back(std::this_thread::get_id()); }).ok());
  }
  ASSERT_EQ(ran_on.size(), 3u);
  EXPECT_EQ(ran_on[0], ran_on[2]);
  EXPECT_NE(ran_on[0], std::this_thread::get_id());
}

TEST_F(HeldLaneTest, NothingOfAModelRunsMeanwhile) {
  std::atomic<bool> held = false, overlapped = false;
  std::atomic<int> batches = 0;
  const auto model = *scheduler_->AddModel({}, [&](std::unique_ptr<Batch> batch) {
    overlapped = overlapped || held;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    overlapped = overlapped || held;
    ++batches;
    for (auto& task : batch->tasks) RecordOf(*task).Run();
    return RunOutcome::kWhole;
  });
  std::atomic<bool> stop = false;
  std::thread caller([&] {
    while (!stop) {
      auto place = model->Reserve({});
      if (!place.ok()) continue;
      const auto record = std::make_shared<TaskRecord>();
      ModelQueue::Enqueue(*std::move(place), std::make_unique<FakeTask>(record));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  while (batches == 0) std::this_thread::yield();
  const int before = batches;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(lane_
                    ->Run(cancellation_,
                          [&] {
                            held = true;
                            std::this_thread::sleep_for(std::chrono::milliseconds(2));
                            held = false;
                          })
                    .ok());
  }
  EXPECT_FALSE(overlapped);
  EXPECT_GT(batches, before) << "models run between two pieces of work";
  stop = true;
  caller.join();
}

TEST_F(HeldLaneTest, StepsShareATurnUntilAModelWaits) {
  std::atomic<int> batches = 0;
  const auto model = *scheduler_->AddModel({}, [&](std::unique_ptr<Batch> batch) {
    ++batches;
    for (auto& task : batch->tasks) RecordOf(*task).Run();
    return RunOutcome::kWhole;
  });
  int steps = 0, before_the_batch = 0;
  const auto step = [&] {
    if (batches == 0) ++before_the_batch;
    if (++steps == 3) {
      ModelQueue::Enqueue(*model->Reserve({}),
                          std::make_unique<FakeTask>(std::make_shared<TaskRecord>()));
    }
    return steps < 6;
  };
  ASSERT_TRUE(lane_->RunSteps(cancellation_, step).ok());
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(before_the_batch, 3) << "the model waits for the step that runs, and no longer";
}

TEST_F(HeldLaneTest, StepsOfManyMillisecondsHaveTurnsOfTheirOwn) {
  int steps = 0;
  const auto step = [&] {
    ++steps;
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
    cancellation_->Cancel();
    return true;
  };
  EXPECT_TRUE(absl::IsCancelled(lane_->RunSteps(cancellation_, step)));
  EXPECT_EQ(steps, 1) << "the second turn did not come";
}

// As on a machine with GPUs, which have a scheduler of their own.
TEST_F(HeldLaneTest, ALaneInsideAnotherIsHeldWithIt) {
  const auto inner_scheduler = *Scheduler::Create({.device_threads = 1}, SteadyClock());
  lane_ =
      *HeldLane::Create({.device_threads = kThreads}, *scheduler_, SteadyClock(),
                        *HeldLane::Create({.device_threads = 1}, *inner_scheduler, SteadyClock()));
  const auto is_free = [](Scheduler& scheduler) {
    return scheduler.AwaitIdle(SteadyClock().Now() + 20 * kMillisecond);
  };
  const auto expect_held = [&] {
    EXPECT_FALSE(is_free(*scheduler_));
    EXPECT_FALSE(is_free(*inner_scheduler));
  };
  ASSERT_TRUE(lane_->Run(cancellation_, expect_held).ok());
  const auto parts = [&](HeldLane::Parts& parts) {
    expect_held();
    EXPECT_TRUE(parts.Next().ok());
    expect_held();
    return absl::OkStatus();
  };
  ASSERT_TRUE(lane_->RunInParts(cancellation_, parts).ok());
  EXPECT_TRUE(scheduler_->AwaitIdle(kNever));
  EXPECT_TRUE(inner_scheduler->AwaitIdle(kNever));
  cancellation_->Cancel();
  EXPECT_TRUE(absl::IsCancelled(lane_->Run(cancellation_, [] { FAIL(); })));
  EXPECT_TRUE(absl::IsCancelled(
      lane_->RunInParts(cancellation_, [](HeldLane::Parts&) { return absl::OkStatus(); })));
  EXPECT_TRUE(inner_scheduler->AwaitIdle(kNever));
  lane_.reset();  // before its scheduler
}

// Of the device's time, against a model's: in virtual time, where models always have work and the
// lane the next pass as soon as one is done. --experiment-weight is that weight.
TEST(HeldLaneWeight, ItsShareBesideModelsThatAlwaysHaveWorkIsOneInSoManyParts) {
  for (const int weight : {10, 2}) {
    constexpr int kDeviceThreads = 4;
    Simulation simulation({.device_threads = kDeviceThreads});
    double lane_time = 0, model_time = 0;
    const QueueId lane = simulation.AddModel(
        HeldLane::QueueOptions({.device_threads = kDeviceThreads, .weight = weight}),
        [&](const Batch&) {
          lane_time += 7 * kMillisecond * kDeviceThreads;
          return 7 * kMillisecond;
        });
    const QueueId model = simulation.AddModel({.max_batch_size = 8,
                                               .policies = {{.max_queue_size = 1000}},
                                               .instances = kDeviceThreads,
                                               .threads_per_batch = {1}},
                                              [&](const Batch&) {
                                                model_time += 3 * kMillisecond;
                                                return 3 * kMillisecond;
                                              });
    const Nanos end = simulation.now() + 10 * kSecond;
    const auto refill = [&](QueueId queue) {
      const int waiting = queue == lane ? 1 : 100;
      while (simulation.dispatcher().waiting(queue) < waiting) {
        const auto record = std::make_shared<TaskRecord>();
        record->arrival = simulation.now();
        ASSERT_TRUE(simulation.Submit(queue, record).ok());
      }
    };
    simulation.on_done = [&](QueueId queue, const Batch&) {
      simulation.At(simulation.now(), [&, queue] {
        if (simulation.now() < end) refill(queue);
      });
    };
    refill(lane);
    refill(model);
    simulation.RunUntil(end);
    EXPECT_NEAR(model_time / lane_time, weight, 0.1 * weight);
  }
}

// One task of a model, from when it is asked for to when it has run.
class HeldLaneInPartsTest : public HeldLaneTest {
 protected:
  void AskModel() {
    const auto record = std::make_shared<TaskRecord>();
    auto place = model_->Reserve({});
    ASSERT_TRUE(place.ok()) << place.status();
    ModelQueue::Enqueue(*std::move(place), std::make_unique<FakeTask>(record));
  }

  std::atomic<bool> held_ = false, overlapped_ = false;
  std::atomic<int> batches_ = 0;
  std::unique_ptr<ModelQueue> model_ =
      *scheduler_->AddModel({}, [this](std::unique_ptr<Batch> batch) {
        overlapped_ = overlapped_ || held_;
        for (auto& task : batch->tasks) RecordOf(*task).Run();
        ++batches_;
        return RunOutcome::kWhole;
      });
};

TEST_F(HeldLaneInPartsTest, ModelsRunBetweenTheParts) {
  const auto this_thread = std::this_thread::get_id();
  int ran_meanwhile = 0;
  const absl::Status status = lane_->RunInParts(cancellation_, [&](HeldLane::Parts& parts) {
    EXPECT_EQ(std::this_thread::get_id(), this_thread);
    for (int part = 0; part < 3; ++part) {
      held_ = true;
      EXPECT_FALSE(parts.AreOthersDue());
      const int before = batches_;
      AskModel();
      while (!parts.AreOthersDue()) std::this_thread::yield();
      EXPECT_EQ(batches_, before) << "the device is held";
      held_ = false;
      FOVEA_RETURN_IF_ERROR(parts.Next());
      // It came before, and is next: what waits for this lane's own turn waits for it.
      ran_meanwhile += batches_ - before;
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ran_meanwhile, 3);
  EXPECT_FALSE(overlapped_);
}

TEST_F(HeldLaneInPartsTest, WhatTheWorkReturnsOrThrowsLetsTheDeviceGo) {
  EXPECT_EQ(ReasonOf(lane_->RunInParts(
                cancellation_, [](HeldLane::Parts&) { return Internal("a.b", "it fails"); })),
            "a.b");
  EXPECT_THROW(
      static_cast<void>(lane_->RunInParts(
          cancellation_, [](HeldLane::Parts&) -> absl::Status { throw std::bad_alloc(); })),
      std::bad_alloc);
  EXPECT_TRUE(lane_->Run(cancellation_, [] {}).ok());
}

TEST_F(HeldLaneInPartsTest, WhoGoesBetweenTwoPartsGetsNoOther) {
  absl::Status next;
  const absl::Status status = lane_->RunInParts(cancellation_, [&](HeldLane::Parts& parts) {
    cancellation_->Cancel();
    next = parts.Next();
    return next;
  });
  EXPECT_EQ(next.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status, next);
  EXPECT_TRUE(lane_->Run(std::make_shared<Cancellation>(), [] {}).ok());
}

TEST_F(HeldLaneTest, OutOfMemoryIsAnAnswer) {
  const absl::Status status = lane_->Run(cancellation_, [] { throw std::bad_alloc(); });
  EXPECT_EQ(ReasonOf(status), "server.out_of_memory");
  EXPECT_TRUE(lane_->Run(cancellation_, [] {}).ok());
}

TEST_F(HeldLaneTest, WorkOfWhoHasGoneIsNotRun) {
  cancellation_->Cancel();
  bool ran = false;
  const absl::Status status = lane_->Run(cancellation_, [&] { ran = true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace fovea
