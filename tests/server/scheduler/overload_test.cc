// How much useful work is done when more comes than the device can do, in virtual time.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>

#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;

struct Load {
  std::string name;
  double overload;  // arrivals over capacity
  Nanos deadline;   // after the arrival
  Nanos per_batch;
  Nanos per_image;
};

constexpr int kMaxBatch = 8;
constexpr Nanos kDuration = 20 * kSecond;

// Answers within their deadline, over what the device can do at its best batch.
double Goodput(const Load& load) {
  std::mt19937_64 random(1);
  Simulation simulation;
  std::lognormal_distribution<double> noise(0, 0.1);
  const QueueId queue = simulation.AddModel({.max_batch_size = kMaxBatch}, [&](const Batch& batch) {
    return static_cast<Nanos>((load.per_batch + load.per_image * batch.images) * noise(random));
  });
  for (int images = 1; images <= kMaxBatch; ++images) {  // as the warm-up does
    simulation.dispatcher().RecordLatency(queue, images, load.per_batch + load.per_image * images,
                                          simulation.now());
  }
  const double capacity =
      kMaxBatch / static_cast<double>(load.per_batch + load.per_image * kMaxBatch);
  int good = 0;
  simulation.on_done = [&](QueueId, const Batch& batch) {
    for (const auto& task : batch.tasks) good += task->deadline() >= simulation.now();
  };
  const Nanos end = simulation.now() + kDuration;
  std::exponential_distribution<double> gap(capacity * load.overload);
  std::function<void()> arrive = [&] {
    auto record = std::make_shared<TaskRecord>();
    record->arrival = simulation.now();
    record->deadline = simulation.now() + load.deadline;
    absl::StatusOr<TaskId> place =
        simulation.dispatcher().Reserve(queue, {.deadline = record->deadline}, simulation.now());
    if (place.ok()) {  // and is decoded meanwhile
      simulation.At(simulation.now() + 10 * kMs, [&, record, id = *place] {
        simulation.dispatcher().Enqueue(queue, id, std::make_unique<FakeTask>(record),
                                        simulation.now());
        simulation.Step();
      });
    }
    const Nanos next = simulation.now() + static_cast<Nanos>(gap(random));
    if (next < end) simulation.At(next, arrive);
  };
  arrive();
  simulation.RunToTheEnd();
  return good / (capacity * kDuration);
}

class OverloadTest : public testing::TestWithParam<Load> {};

TEST_P(OverloadTest, GoodputStaysAtNineTenthsOfWhatCanBeDone) {
  EXPECT_GE(Goodput(GetParam()), 0.9 * std::min(1.0, GetParam().overload));
}

INSTANTIATE_TEST_SUITE_P(
    All, OverloadTest,
    testing::Values(Load{"WithinCapacity", 0.8, 200 * kMs, 0, 5 * kMs},
                    Load{"TwiceTightDeadlines", 2, 100 * kMs, 0, 5 * kMs},
                    Load{"Twice", 2, 500 * kMs, 0, 5 * kMs},
                    Load{"TwiceFarDeadlines", 2, 5 * kSecond, 0, 5 * kMs},
                    Load{"TenTimes", 10, 200 * kMs, 0, 5 * kMs},
                    Load{"WithinCapacityWhereBatchingPays", 0.8, 200 * kMs, 20 * kMs, 2 * kMs},
                    Load{"TwiceTightDeadlinesWhereBatchingPays", 2, 120 * kMs, 20 * kMs, 2 * kMs},
                    Load{"TwiceWhereBatchingPays", 2, 500 * kMs, 20 * kMs, 2 * kMs},
                    Load{"TenTimesWhereBatchingPays", 10, 200 * kMs, 20 * kMs, 2 * kMs}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fovea
