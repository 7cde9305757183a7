// How models share the device, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;

struct Contender {
  Nanos per_batch;
  Nanos per_image;
  int max_batch_size = 8;
  int instances = 1;
  int threads = 1;
};

struct Contest {
  std::string name;
  int device_threads;
  std::vector<Contender> models;
};

// Keeps every model's line full for `duration`; the device time that each used, over all threads.
std::vector<double> DeviceTimes(const Contest& contest, Nanos duration,
                                const std::vector<int>& rate_limiter_priorities = {}) {
  Simulation simulation({.device_threads = contest.device_threads});
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> noise(0, 0.1);
  std::map<QueueId, size_t> index;
  std::vector<double> used(contest.models.size(), 0);
  const Nanos end = simulation.now() + duration;
  for (const Contender& model : contest.models) {
    const QueueId queue = simulation.AddModel(
        {.max_batch_size = model.max_batch_size,
         .policies = {{.max_queue_size = 1'000}},
         .instances = model.instances,
         .threads_per_batch = {model.threads},
         .rate_limiter_priority =
             rate_limiter_priorities.empty() ? 1 : rate_limiter_priorities[index.size()]},
        [&, number = index.size()](const Batch& batch) {
          const Contender& one = contest.models[number];
          const Nanos cost = (one.per_batch + one.per_image * batch.images) * noise(random);
          used[number] += static_cast<double>(cost) * one.threads;
          return cost;
        });
    index.emplace(queue, index.size());
  }
  auto refill = [&](QueueId queue) {
    const Contender& model = contest.models[index.at(queue)];
    while (simulation.dispatcher().waiting(queue) < 3 * model.max_batch_size * model.instances) {
      auto record = std::make_shared<TaskRecord>();
      record->arrival = simulation.now();
      ASSERT_TRUE(simulation.Submit(queue, record).ok());
    }
  };
  simulation.on_done = [&](QueueId queue, const Batch&) {
    simulation.At(simulation.now(), [&, queue] {
      if (simulation.now() < end) refill(queue);
    });
  };
  for (const auto& [queue, unused] : index) refill(queue);
  simulation.RunUntil(end);
  return used;
}

class FairnessTest : public testing::TestWithParam<Contest> {};

TEST_P(FairnessTest, SaturatedModelsShareWithinTenPercentOverFiveSeconds) {
  const std::vector<double> used = DeviceTimes(GetParam(), 5 * kSecond);
  const double fair = 5e9 * GetParam().device_threads / static_cast<double>(used.size());
  for (double one : used) EXPECT_NEAR(one / fair, 1.0, 0.1) << testing::PrintToString(used);
}

INSTANTIATE_TEST_SUITE_P(
    All, FairnessTest,
    testing::Values(Contest{"EqualCosts", 1, {{1 * kMs, kMs}, {1 * kMs, kMs}}},
                    Contest{"TenTimesTheCost", 1, {{kMs, kMs / 10}, {10 * kMs, kMs}}},
                    Contest{"AHundredTimesTheCost", 1, {{kMs, 0}, {100 * kMs, 0}}},
                    Contest{"CostsBelowTheQuantum", 1, {{kMs / 20, 0}, {kMs / 12, 0}}},
                    Contest{"DifferentBatchSizes", 1, {{kMs, kMs, 1}, {kMs, kMs, 32}}},
                    Contest{"ThreeModels", 1, {{kMs, 0}, {7 * kMs, 0}, {30 * kMs, 0}}},
                    Contest{"SeveralInstancesAgainstOne",
                            2,
                            {{5 * kMs, kMs, 8, 2, 1}, {5 * kMs, kMs, 8, 1, 2}}},
                    Contest{"OneThreadAgainstTheWholeDevice",
                            4,
                            {{kMs, kMs / 10, 8, 4, 1}, {20 * kMs, kMs, 8, 1, 4}}}),
    [](const auto& info) { return info.param.name; });

TEST(WeightsTest, SaturatedModelsShareByTheirWeightsWithinTenPercentOverFiveSeconds) {
  const Contest contest{"Weights", 1, {{kMs, kMs}, {10 * kMs, kMs}, {kMs, kMs / 10}}};
  const std::vector<double> used = DeviceTimes(contest, 5 * kSecond, {1, 2, 3});
  const double whole = 5e9 / (1 + 1 / 2.0 + 1 / 3.0);
  for (int model = 0; model < 3; ++model) {
    EXPECT_NEAR(used[model] / (whole / (model + 1)), 1.0, 0.1) << testing::PrintToString(used);
  }
}

TEST(TurnsTest, ASaturatedModelHoldsUpAnotherByAtMostOneBatch) {
  Simulation simulation;
  const Nanos heavy_batch = 20 * kMs;
  const QueueId heavy =
      simulation.AddModel({.max_batch_size = 8, .policies = {{.max_queue_size = 10'000}}},
                          [&](const Batch&) { return heavy_batch; });
  const QueueId light =
      simulation.AddModel({.max_batch_size = 8}, [](const Batch&) { return kMs; });
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(simulation.Submit(heavy, std::make_shared<TaskRecord>()).ok());
  }
  Nanos longest_wait = 0;
  simulation.on_start = [&](QueueId queue, const Batch& batch) {
    if (queue == light) {
      longest_wait = std::max(longest_wait, simulation.now() - batch.tasks[0]->arrival());
    }
  };
  const Nanos start = simulation.now();
  int ran = 0;
  std::vector<std::shared_ptr<TaskRecord>> records;
  for (int i = 0; i < 40; ++i) {
    simulation.At(start + i * 97 * kMs, [&] {
      auto record = std::make_shared<TaskRecord>();
      record->arrival = simulation.now();
      records.push_back(record);
      ASSERT_TRUE(simulation.Submit(light, record).ok());
    });
  }
  simulation.RunUntil(start + 4 * kSecond);
  for (const auto& record : records) ran += record->runs;
  EXPECT_EQ(ran, 40);
  EXPECT_LE(longest_wait, heavy_batch);
}

TEST(TurnsTest, OneModelDoesNotTakeAllThreadsAtOnceWhileAnotherHasWork) {
  Simulation simulation({.device_threads = 2});
  std::vector<QueueId> queues;
  for (int i = 0; i < 2; ++i) {
    queues.push_back(simulation.AddModel({.instances = 2}, [](const Batch&) { return kMs; }));
    simulation.dispatcher().RecordLatency(queues[i], {1}, kMs, simulation.now());
  }
  for (QueueId queue : queues) {
    for (int i = 0; i < 2; ++i) {
      const TaskId place = *simulation.dispatcher().Reserve(queue, {}, simulation.now());
      simulation.dispatcher().Enqueue(queue, place,
                                      std::make_unique<FakeTask>(std::make_shared<TaskRecord>()),
                                      simulation.now());
    }
  }
  std::vector<QueueId> started;
  simulation.on_start = [&](QueueId queue, const Batch&) { started.push_back(queue); };
  simulation.Step();
  ASSERT_EQ(started.size(), 2u);
  EXPECT_NE(started[0], started[1]);
  simulation.RunToTheEnd();
}

TEST(TurnsTest, AnIdleModelCostsTheOthersNothing) {
  Simulation simulation;
  simulation.AddModel({.max_batch_size = 8}, [](const Batch&) { return kMs; });
  const QueueId busy =
      simulation.AddModel({.max_batch_size = 8, .policies = {{.max_queue_size = 1'000}}},
                          [](const Batch&) { return kMs; });
  for (int i = 0; i < 800; ++i) {
    ASSERT_TRUE(simulation.Submit(busy, std::make_shared<TaskRecord>()).ok());
  }
  const Nanos start = simulation.now();
  simulation.RunToTheEnd();
  EXPECT_EQ(simulation.now() - start, 101 * kMs);  // the first ran alone, the rest by eights
}

}  // namespace
}  // namespace fovea
