// Admission to a model beside another one that keeps the device busy, though nothing of it waits.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;
constexpr int kThreads = 4;

class BesideOthersTest : public testing::Test {
 protected:
  // Batches on one thread of two images take 16 ms, on all four of eight 10 ms: more than they will
  // get beside others.
  QueueId AddElastic() {
    const QueueId queue = simulation_.AddModel(
        {.max_batch_size = 8, .instances = kThreads, .threads_per_batch = {1, 2, kThreads}},
        [](const Batch&) { return 16 * kMs; });
    for (int images = 1; images <= 8; ++images) {
      Record(queue, {.images = images, .threads = kThreads}, 10 * kMs);
    }
    for (const int images : {1, 2}) Record(queue, {.images = images, .threads = 1}, 16 * kMs);
    return queue;
  }
  void Record(QueueId queue, const BatchSize& batch, Nanos took) {
    simulation_.dispatcher().RecordLatency(queue, batch, took, simulation_.now());
  }
  // For five seconds the other model keeps so many threads busy. Nothing of it is left.
  void KeepBusy(double threads) {
    const QueueId other =
        simulation_.AddModel({.instances = kThreads}, [](const Batch&) { return 10 * kMs; });
    Record(other, {}, 10 * kMs);
    const auto gap = static_cast<Nanos>(10 * kMs / threads);
    const Nanos start = simulation_.now();
    for (Nanos at = 0; at < 5 * kSecond; at += gap) {
      simulation_.At(start + at, [this, other] {
        auto record = std::make_shared<TaskRecord>();
        record->arrival = simulation_.now();
        ASSERT_TRUE(simulation_.Submit(other, record).ok());
      });
    }
    simulation_.RunToTheEnd();
    EXPECT_EQ(simulation_.dispatcher().waiting(other), 0);
  }
  bool Admits(QueueId queue, Nanos time_left, int priority = 0) {
    return Reserve(queue, time_left, priority).ok();
  }
  absl::StatusOr<TaskId> Reserve(QueueId queue, Nanos time_left, int priority = 0) {
    return simulation_.dispatcher().Reserve(
        queue,
        {.priority = priority,
         .deadline = time_left == kNever ? kNever : simulation_.now() + time_left},
        simulation_.now());
  }

  Simulation simulation_{{.device_threads = kThreads}};
};

TEST_F(BesideOthersTest, ALongLineGoesByTheThreadsThatItRunsOn) {
  KeepBusy(2);
  const QueueId queue = AddElastic();
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Reserve(queue, 45 * kMs).ok());
  // Two rounds of batches on one thread, and as much again for the other model's share: 64 ms. All
  // threads would promise 40.
  EXPECT_FALSE(Admits(queue, 50 * kMs));
}

TEST_F(BesideOthersTest, ItGoesByTheBestWhereTheOthersHardlyDoAnything) {
  KeepBusy(0.05);
  const QueueId queue = AddElastic();
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Reserve(queue, 15 * kMs).ok());
  EXPECT_TRUE(Admits(queue, 25 * kMs)) << "10 ms and 10 ms on all threads";
  EXPECT_FALSE(Admits(queue, 19 * kMs + kMs / 2));
}

TEST_F(BesideOthersTest, WhoIsInTheNextBatchIsNotHeldBackByWhatMayCome) {
  KeepBusy(3.8);
  const QueueId queue = simulation_.AddModel({.max_batch_size = 8, .threads_per_batch = {kThreads}},
                                             [](const Batch&) { return 10 * kMs; });
  for (int images = 1; images <= 8; ++images) {
    Record(queue, {.images = images, .threads = kThreads}, 10 * kMs);
  }
  EXPECT_TRUE(Admits(queue, 11 * kMs)) << "nobody is before it";
  EXPECT_TRUE(Admits(queue, 11 * kMs)) << "it is in the batch of that one";
  for (int i = 2; i < 8; ++i) ASSERT_TRUE(Reserve(queue, 11 * kMs).ok());
  EXPECT_FALSE(Admits(queue, 21 * kMs)) << "two batches, and the other model's share between them";
  EXPECT_TRUE(Admits(queue, 41 * kMs));
}

TEST_F(BesideOthersTest, WhoIsBehindItHoldsNobodyBack) {
  KeepBusy(3.8);
  const QueueId queue = simulation_.AddModel({.max_batch_size = 8,
                                              .policies = {QueuePolicy(), QueuePolicy()},
                                              .threads_per_batch = {kThreads}},
                                             [](const Batch&) { return 10 * kMs; });
  for (int images = 1; images <= 8; ++images) {
    Record(queue, {.images = images, .threads = kThreads}, 10 * kMs);
  }
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Reserve(queue, kNever, /*priority=*/1).ok());
  EXPECT_TRUE(Admits(queue, 11 * kMs));
}

}  // namespace
}  // namespace fovea
