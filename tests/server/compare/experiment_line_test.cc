#include "server/compare/experiment_line.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "base/status.h"
#include "server/core/testing/notification.h"

namespace fovea {
namespace {

class ExperimentLineTest : public testing::Test {
 protected:
  struct Added {
    CancellationPtr cancellation = std::make_shared<Cancellation>();
    std::promise<absl::Status> promise;
    std::future<absl::Status> outcome = promise.get_future();
  };
  std::shared_ptr<Added> Add(std::function<absl::Status()> run, int64_t bytes = 0) {
    auto added = std::make_shared<Added>();
    line_->Add(
        {.cancellation = added->cancellation,
         .bytes = bytes,
         .run = std::move(run),
         .end = [added](absl::Status status) { added->promise.set_value(std::move(status)); }});
    return added;
  }

  MemoryBudget waiting_memory_{100, SteadyClock()};
  std::unique_ptr<ExperimentLine> line_ =
      *ExperimentLine::Create({.name = "explain",
                               .what = "explanations",
                               .max_waiting = 2,
                               .waiting_memory = &waiting_memory_});
};

TEST_F(ExperimentLineTest, OneRunsAtATimeInTheOrderInWhichTheyCame) {
  std::atomic<int> running = 0;
  std::string order;
  std::vector<std::shared_ptr<Added>> added;
  Notification go;
  for (const char name : {'a', 'b', 'c'}) {
    if (name != 'a') {
      while (running == 0) std::this_thread::yield();
    }
    added.push_back(Add([&, name] {
      EXPECT_EQ(++running, 1);
      if (name == 'a') go.Wait();
      order += name;
      --running;
      return absl::OkStatus();
    }));
  }
  go.Notify();
  for (const auto& one : added) EXPECT_TRUE(one->outcome.get().ok());
  EXPECT_EQ(order, "abc");
}

TEST_F(ExperimentLineTest, WhoFindsTooManyWaitingIsRefusedAtOnce) {
  Notification go, runs;
  const auto first = Add([&] {
    runs.Notify();
    go.Wait();
    return absl::OkStatus();
  });
  runs.Wait();
  const auto ok = [] { return absl::OkStatus(); };
  const auto second = Add(ok), third = Add(ok), fourth = Add(ok);
  const absl::Status refused = fourth->outcome.get();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), "explain.busy");
  // One who has gone is told at once, and leaves a place.
  second->cancellation->Cancel();
  ASSERT_EQ(second->outcome.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_EQ(ReasonOf(second->outcome.get()), "explain.cancelled");
  const auto fifth = Add(ok);
  go.Notify();
  for (const auto& one : {first, third, fifth}) EXPECT_TRUE(one->outcome.get().ok());
}

// Row 106.
TEST_F(ExperimentLineTest, WhatWaitsHoldsABoundedShareOfMemory) {
  Notification go, runs;
  const auto first = Add(
      [&] {
        runs.Notify();
        go.Wait();
        return absl::OkStatus();
      },
      1000);  // it does not wait
  runs.Wait();
  const auto ok = [] { return absl::OkStatus(); };
  const auto second = Add(ok, 60), third = Add(ok, 41);
  EXPECT_EQ(ReasonOf(third->outcome.get()), "explain.busy");
  const auto fourth = Add(ok, 40);
  second->cancellation->Cancel();
  EXPECT_EQ(waiting_memory_.held(), 40);
  go.Notify();
  EXPECT_TRUE(first->outcome.get().ok());
  EXPECT_TRUE(fourth->outcome.get().ok());
  EXPECT_EQ(waiting_memory_.held(), 0);
}

TEST_F(ExperimentLineTest, WhoHasGoneBeforeIsNotRun) {
  const auto gone = std::make_shared<Added>();
  gone->cancellation->Cancel();
  line_->Add({.cancellation = gone->cancellation,
              .run =
                  [] {
                    ADD_FAILURE() << "nobody waits for it";
                    return absl::OkStatus();
                  },
              .end = [gone](absl::Status status) { gone->promise.set_value(std::move(status)); }});
  EXPECT_EQ(ReasonOf(gone->outcome.get()), "explain.cancelled");
}

TEST_F(ExperimentLineTest, WhoGoesWhenTheLineHasGoneIsTooLate) {
  const auto done = Add([] { return absl::OkStatus(); });
  EXPECT_TRUE(done->outcome.get().ok());
  line_.reset();
  done->cancellation->Cancel();
}

TEST_F(ExperimentLineTest, ClosedItWaitsForNothing) {
  Notification runs, go;
  const auto running = Add([&] {
    runs.Notify();
    go.Wait();
    return Internal("a.b", "the pass ended");
  });
  runs.Wait();
  const auto waits = Add([] { return absl::OkStatus(); });
  line_->Close();
  EXPECT_TRUE(running->cancellation->Cancelled());
  EXPECT_EQ(ReasonOf(Add([] { return absl::OkStatus(); })->outcome.get()), "server.draining");
  go.Notify();
  EXPECT_EQ(ReasonOf(running->outcome.get()), "server.draining");
  EXPECT_EQ(ReasonOf(waits->outcome.get()), "server.draining");
}

TEST_F(ExperimentLineTest, WhatFailsBecauseItWasCancelledSaysSo) {
  const auto cancelled = Add([&] { return Internal("a.b", "the pass ended"); });
  EXPECT_EQ(ReasonOf(cancelled->outcome.get()), "a.b");
  Notification runs, go;
  const auto other = Add([&] {
    runs.Notify();
    go.Wait();
    return Internal("a.b", "the pass ended");
  });
  runs.Wait();
  other->cancellation->Cancel();
  go.Notify();
  EXPECT_EQ(other->outcome.get().code(), absl::StatusCode::kCancelled);
}

TEST_F(ExperimentLineTest, AStopEndsWhatRunsAndWhatWaits) {
  Notification runs;
  CancellationPtr of_running;
  const auto running = std::make_shared<Added>();
  line_->Add(
      {.cancellation = running->cancellation,
       .run =
           [&] {
             runs.Notify();
             while (!running->cancellation->Cancelled()) std::this_thread::yield();
             return Internal("a.b", "the pass ended");
           },
       .end = [running](absl::Status status) { running->promise.set_value(std::move(status)); }});
  runs.Wait();
  const auto waiting = Add([] { return absl::OkStatus(); });
  line_->Stop();
  const auto late = Add([] { return absl::OkStatus(); });
  for (const auto& one : {running, waiting, late}) {
    EXPECT_EQ(ReasonOf(one->outcome.get()), "server.draining");
  }
}

TEST_F(ExperimentLineTest, OutOfMemoryIsAnAnswer) {
  const auto added = Add([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(ReasonOf(added->outcome.get()), "server.out_of_memory");
}

}  // namespace
}  // namespace fovea
