#include "server/compare/held_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"
#include "tests/server/scheduler/fake_task.h"

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

TEST_F(HeldLaneTest, WorkOfWhoHasGoneIsNotRun) {
  cancellation_->Cancel();
  bool ran = false;
  const absl::Status status = lane_->Run(cancellation_, [&] { ran = true; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace fovea
