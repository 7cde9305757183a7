#include "server/imaging/imaging_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

std::unique_ptr<ImagingPool> MakePool(Clock& clock, const ImagingPoolOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<ImagingPool>> pool = ImagingPool::Create(options, clock);
  EXPECT_TRUE(pool.ok());
  return *std::move(pool);
}

// The tests' lines go before their pools: by then nothing may be in line.
void AwaitIdle(const ImagingPool& pool) {
  while (pool.queued() > 0) std::this_thread::yield();
}

// Keeps a pool's only thread busy until it is released.
class Occupation {
 public:
  explicit Occupation(ImagingLine& line) {
    EXPECT_TRUE(line.Submit({.run =
                                 [this](const absl::Status&) {
                                   started_.count_down();
                                   release_.wait();
                                   return true;
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
    const auto line = pool->AddLine();
    Occupation busy(*line);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(line->Submit({.run =
                                    [&order, i](const absl::Status&) {
                                      order.push_back(i);
                                      return true;
                                    }})
                      .ok());
    }
    EXPECT_EQ(pool->queued(), 100);
    busy.Release();
    AwaitIdle(*pool);
  }
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(ImagingPool, TheBestPriorityRunsFirstAndInsideItTheEarliestDeadline) {
  FakeClock clock;
  std::vector<std::string> order;
  {
    const auto pool = MakePool(clock);
    const auto line = pool->AddLine();
    Occupation busy(*line);
    const auto submit = [&](std::string name, int priority, Nanos deadline) {
      ASSERT_TRUE(line->Submit({.run =
                                    [&order, name](const absl::Status&) {
                                      order.push_back(name);
                                      return true;
                                    },
                                .outline = {.priority = priority, .order = deadline},
                                .deadline = deadline})
                      .ok());
    };
    submit("low, soon", 1, clock.Now() + kSecond);
    submit("high, late", 0, clock.Now() + 3 * kSecond);
    submit("low, late", 1, clock.Now() + 4 * kSecond);
    submit("high, soon", 0, clock.Now() + 2 * kSecond);
    busy.Release();
    AwaitIdle(*pool);
  }
  EXPECT_THAT(order, testing::ElementsAre("high, soon", "high, late", "low, soon", "low, late"));
}

TEST(ImagingPool, EveryAcceptedTaskRunsExactlyOnceAndARefusedOneNever) {
  FakeClock clock;
  constexpr int kTasks = 2000;
  std::vector<std::atomic<int>> runs(kTasks);
  std::vector<bool> accepted(kTasks);
  {
    const auto pool = MakePool(clock, {.threads = 4, .max_queued = 50});
    const auto line = pool->AddLine();
    for (int i = 0; i < kTasks; ++i) {
      const absl::Status status =
          line->Submit({.run = [&runs, i](const absl::Status&) { return ++runs[i] > 0; }});
      accepted[i] = status.ok();
      if (!status.ok()) {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
        EXPECT_EQ(ReasonOf(status), "image.queue_full");
      }
    }
    AwaitIdle(*pool);
  }
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(runs[i].load(), accepted[i] ? 1 : 0) << i;
}

TEST(ImagingPool, ResultsThatAreHeldBackRunToo) {
  FakeClock clock;
  constexpr int kPictures = 50;
  for (const int threads : {1, 2, 4}) {
    std::atomic<int> ran = 0, running = 0, most = 0;
    const auto pool = MakePool(clock, {.threads = threads});
    const auto line = pool->AddLine();
    for (int i = 0; i < kPictures; ++i) {
      line->SubmitLast({.run =
                            [&](const absl::Status&) {
                              const int now = ++running;
                              int seen = most;
                              while (now > seen && !most.compare_exchange_weak(seen, now)) {
                              }
                              std::this_thread::yield();
                              --running;
                              return ++ran > 0;
                            },
                        .outline = {.work = {ImageKind::kResults, 1}, .split_from = 7}});
    }
    pool->Stop();
    EXPECT_EQ(ran, kPictures) << "also of a pool that stops";
    EXPECT_LE(most, std::max(1, threads - 1));
  }
}

TEST(ImagingPool, AFullQueueRefusesAtOnce) {
  FakeClock clock;
  const auto pool = MakePool(clock, {.threads = 1, .max_queued = 2});
  const auto line = pool->AddLine();
  Occupation busy(*line);
  std::atomic<int> ran = 0;
  const auto submit = [&] {
    return line->Submit({.run = [&](const absl::Status&) { return ++ran > 0; }});
  };
  EXPECT_TRUE(submit().ok());
  EXPECT_TRUE(submit().ok());
  EXPECT_EQ(ReasonOf(submit()), "image.queue_full");
  EXPECT_EQ(ran, 0);
  busy.Release();
  AwaitIdle(*pool);
}

TEST(ImagingPool, AModelThatFillsTheQueueLeavesTheOthersTheirParts) {
  FakeClock clock;
  const auto pool = MakePool(clock, {.threads = 1, .max_queued = 4});
  const auto greedy = pool->AddLine(), modest = pool->AddLine();
  Occupation busy(*greedy);
  const auto submit = [](ImagingLine& line) {
    return line.Submit({.run = [](const absl::Status&) { return true; }}).ok();
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(submit(*greedy));
  EXPECT_FALSE(submit(*greedy));
  EXPECT_TRUE(submit(*modest));
  EXPECT_TRUE(submit(*modest));
  EXPECT_FALSE(submit(*modest));
  busy.Release();
  AwaitIdle(*pool);
}

TEST(ImagingPool, TakesAllImagesOfARequestOrNone) {
  FakeClock clock;
  const auto pool = MakePool(clock, {.threads = 1, .max_queued = 2});
  const auto line = pool->AddLine();
  Occupation busy(*line);
  int ran = 0;  // on the one thread
  const auto request = [&] {
    std::vector<ImagingTask> images(3);
    for (ImagingTask& image : images) {
      image.run = [&ran](const absl::Status&) { return ++ran > 0; };
    }
    return images;
  };
  std::vector<ImagingTask> taken = request(), refused = request();
  EXPECT_TRUE(line->Submit(taken).ok()) << "there was room when it came";
  EXPECT_EQ(ReasonOf(line->Submit(refused)), "image.queue_full");
  EXPECT_EQ(pool->queued(), 3);
  busy.Release();
  AwaitIdle(*pool);
  pool->Stop();
  EXPECT_EQ(ran, 3);
}

TEST(ImagingPool, ARefusedTaskStaysWithWhoeverSubmittedIt) {
  FakeClock clock;
  const auto pool = MakePool(clock, {.threads = 1, .max_queued = 1});
  const auto line = pool->AddLine();
  Occupation busy(*line);
  ASSERT_TRUE(line->Submit({.run = [](const absl::Status&) { return true; }}).ok());
  absl::Status told;
  ImagingTask task{.run = [&](const absl::Status& status) { return (told = status).ok(); }};
  const absl::Status refusal = line->Submit(std::move(task));
  busy.Release();
  AwaitIdle(*pool);
  ASSERT_FALSE(refusal.ok());
  task.run(refusal);
  EXPECT_EQ(told, refusal);
}

TEST(ImagingPool, ItsLineHearsWhatAnImageThatNobodyWaitsForWouldHaveTaken) {
  FakeClock clock;
  std::vector<Nanos> saved;
  const auto pool = MakePool(clock);
  const auto line = pool->AddLine([&saved](Nanos time) { saved.push_back(time); });
  const auto decode = [&](ImageKind kind, const CancellationPtr& cancellation) {
    std::latch ended(1);
    ASSERT_TRUE(line->Submit({.run =
                                  [&](const absl::Status& turn) {
                                    if (turn.ok()) clock.Advance(5 * kMillisecond);
                                    ended.count_down();
                                    return turn.ok();
                                  },
                              .outline = {.work = {.kind = kind, .amount = 1'000'000}},
                              .cancellation = cancellation})
                    .ok());
    ended.wait();
  };
  const auto gone = std::make_shared<Cancellation>();
  gone->Cancel();
  decode(ImageKind::kJpeg, gone);  // nobody knows what it would have taken
  decode(ImageKind::kJpeg, nullptr);
  EXPECT_TRUE(saved.empty());
  decode(ImageKind::kJpeg, gone);
  EXPECT_EQ(saved, std::vector<Nanos>{5 * kMillisecond});
  decode(ImageKind::kPng, gone);
  EXPECT_EQ(saved.size(), 1u);
}

TEST(ImagingPool, CancelledTasksAreToldSoInsteadOfWorking) {
  FakeClock clock;
  absl::Status turn;
  {
    const auto pool = MakePool(clock);
    const auto line = pool->AddLine();
    Occupation busy(*line);
    const auto cancellation = std::make_shared<Cancellation>();
    ASSERT_TRUE(
        line->Submit({.run = [&](const absl::Status& status) { return (turn = status).ok(); },
                      .cancellation = cancellation})
            .ok());
    cancellation->Cancel();
    busy.Release();
    AwaitIdle(*pool);
  }
  EXPECT_EQ(turn.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReasonOf(turn), "queue.cancelled");
}

TEST(ImagingPool, ExpiredTasksAreToldSoInsteadOfWorking) {
  FakeClock clock;
  absl::Status at_deadline, before_deadline = absl::UnknownError("not run");
  {
    const auto pool = MakePool(clock);
    const auto line = pool->AddLine();
    Occupation busy(*line);
    const Nanos deadline = clock.Now() + kMillisecond;
    ASSERT_TRUE(
        line->Submit(
                {.run = [&](const absl::Status& status) { return (at_deadline = status).ok(); },
                 .deadline = deadline})
            .ok());
    ASSERT_TRUE(
        line->Submit(
                {.run = [&](const absl::Status& status) { return (before_deadline = status).ok(); },
                 .deadline = deadline + 1})
            .ok());
    clock.Advance(kMillisecond);
    busy.Release();
    AwaitIdle(*pool);
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
    const auto pool = MakePool(clock, {.niceness = 3});
    const auto line = pool->AddLine();
    ASSERT_TRUE(line->Submit({.run =
                                  [&](const absl::Status&) {
                                    there = getpriority(PRIO_PROCESS, 0);
                                    return true;
                                  }})
                    .ok());
    AwaitIdle(*pool);
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

}  // namespace
}  // namespace fovea
