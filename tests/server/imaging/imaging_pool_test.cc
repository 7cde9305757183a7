#include "server/imaging/imaging_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <latch>

#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

std::unique_ptr<ImagingPool> MakePool(const Clock& clock, const ImagingPoolOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<ImagingPool>> pool = ImagingPool::Create(options, clock);
  EXPECT_TRUE(pool.ok());
  return *std::move(pool);
}

// Keeps a pool's only thread busy until it is released.
class Occupation {
 public:
  explicit Occupation(ImagingPool& pool) {
    EXPECT_TRUE(pool.Submit({.run =
                                 [this](const absl::Status&) {
                                   started_.count_down();
                                   release_.wait();
                                 }})
                    .ok());
    started_.wait();
  }
  void Release() { release_.count_down(); }

 private:
  std::latch started_{1};
  std::latch release_{1};
};

TEST(ImagingPool, TasksOfOneThreadRunInTheOrderTheyCame) {
  FakeClock clock;
  std::vector<int> order;
  {
    const auto pool = MakePool(clock);
    Occupation busy(*pool);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(
          pool->Submit({.run = [&order, i](const absl::Status&) { order.push_back(i); }}).ok());
    }
    EXPECT_EQ(pool->queued(), 100);
    busy.Release();
  }
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(ImagingPool, EveryAcceptedTaskRunsExactlyOnceAndARefusedOneNever) {
  FakeClock clock;
  constexpr int kTasks = 2000;
  std::vector<std::atomic<int>> runs(kTasks);
  std::vector<bool> accepted(kTasks);
  {
    const auto pool = MakePool(clock, {.threads = 4, .max_queued = 50});
    for (int i = 0; i < kTasks; ++i) {
      const absl::Status status =
          pool->Submit({.run = [&runs, i](const absl::Status&) { ++runs[i]; }});
      accepted[i] = status.ok();
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
        EXPECT_EQ(ReasonOf(status), "image.queue_full");
      }
    }
  }
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(runs[i].load(), accepted[i] ? 1 : 0) << i;
}

TEST(ImagingPool, AFullQueueRefusesAtOnce) {
  FakeClock clock;
  const auto pool = MakePool(clock, {.threads = 1, .max_queued = 2});
  Occupation busy(*pool);
  std::atomic<int> ran = 0;
  const auto submit = [&] { return pool->Submit({.run = [&](const absl::Status&) { ++ran; }}); };
  EXPECT_TRUE(submit().ok());
  EXPECT_TRUE(submit().ok());
  EXPECT_EQ(ReasonOf(submit()), "image.queue_full");
  EXPECT_EQ(ran, 0);
  busy.Release();
}

TEST(ImagingPool, ARefusedTaskStaysWithWhoeverSubmittedIt) {
  FakeClock clock;
  const auto pool = MakePool(clock, {.threads = 1, .max_queued = 1});
  Occupation busy(*pool);
  ASSERT_TRUE(pool->Submit({.run = [](const absl::Status&) {}}).ok());
  absl::Status told;
  ImagingTask task{.run = [&](const absl::Status& status) { told = status; }};
  const absl::Status refusal = pool->Submit(std::move(task));
  busy.Release();
  ASSERT_FALSE(refusal.ok());
  task.run(refusal);
  EXPECT_EQ(told, refusal);
}

TEST(ImagingPool, CancelledTasksAreToldSoInsteadOfWorking) {
  FakeClock clock;
  absl::Status turn;
  {
    const auto pool = MakePool(clock);
    Occupation busy(*pool);
    const auto cancellation = std::make_shared<Cancellation>();
    ASSERT_TRUE(pool->Submit({.run = [&](const absl::Status& status) { turn = status; },
                              .cancellation = cancellation})
                    .ok());
    cancellation->Cancel();
    busy.Release();
  }
  EXPECT_EQ(turn.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReasonOf(turn), "queue.cancelled");
}

TEST(ImagingPool, ExpiredTasksAreToldSoInsteadOfWorking) {
  FakeClock clock;
  absl::Status at_deadline, before_deadline = absl::UnknownError("not run");
  {
    const auto pool = MakePool(clock);
    Occupation busy(*pool);
    const Nanos deadline = clock.Now() + kMillisecond;
    ASSERT_TRUE(pool->Submit({.run = [&](const absl::Status& status) { at_deadline = status; },
                              .deadline = deadline})
                    .ok());
    ASSERT_TRUE(pool->Submit({.run = [&](const absl::Status& status) { before_deadline = status; },
                              .deadline = deadline + 1})
                    .ok());
    clock.Advance(kMillisecond);
    busy.Release();
  }
  EXPECT_EQ(at_deadline.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(at_deadline), "queue.expired");
  EXPECT_TRUE(before_deadline.ok());
}

TEST(ImagingPool, ThreadsRunAtLowerPriority) {
  FakeClock clock;
  const int here = getpriority(PRIO_PROCESS, 0);
  if (here > 15) GTEST_SKIP() << "this process already runs at nice " << here;
  int there = -100;
  {
    ASSERT_TRUE(
        MakePool(clock, {.niceness = 3})
            ->Submit({.run = [&](const absl::Status&) { there = getpriority(PRIO_PROCESS, 0); }})
            .ok());
  }
  EXPECT_EQ(there, here + 3);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), here);
}

TEST(ImagingPool, SenselessOptionsAreRefused) {
  FakeClock clock;
  for (const ImagingPoolOptions& options : {ImagingPoolOptions{.threads = 0},
                                            {.threads = 1'000'000},
                                            {.max_queued = 0},
                                            {.memory_bytes = 0},
                                            {.niceness = -1},
                                            {.niceness = 20}}) {
    EXPECT_EQ(ReasonOf(ImagingPool::Create(options, clock).status()), "imaging.bad_options");
  }
}

TEST(PixelBudget, ReservationsAddUpToTheCapacityAndComeBack) {
  PixelBudget budget(100);
  {
    absl::StatusOr<PixelBudget::Reservation> first = budget.Reserve(60);
    ASSERT_TRUE(first.ok());
    const absl::Status more = budget.Reserve(41).status();
    EXPECT_EQ(more.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ReasonOf(more), "image.memory");
    const PixelBudget::Reservation moved = *std::move(first);
    const absl::StatusOr<PixelBudget::Reservation> second = budget.Reserve(40);
    EXPECT_TRUE(second.ok());
    EXPECT_EQ(budget.reserved_bytes(), 100);
  }
  EXPECT_EQ(budget.reserved_bytes(), 0);
}

TEST(PixelBudget, WhatNeverFitsIsNotCalledRetryable) {
  PixelBudget budget(100);
  const absl::Status status = budget.Reserve(101).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), "image.too_large_to_decode");
}

}  // namespace
}  // namespace fovea
