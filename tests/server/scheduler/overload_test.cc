// How much useful work is done when more comes than can be done, in virtual time: the device, and
// the threads that decode before it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>

#include "server/imaging/imaging_schedule.h"
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
  // Thread time that decoding an image takes; 0: tensors, which need none.
  Nanos decode = 0;
  // What the deadlines of every second request are multiplied by.
  double patience = 1;
};

constexpr int kMaxBatch = 8;
constexpr int kImagingThreads = 2;
constexpr Nanos kDuration = 20 * kSecond;
constexpr ImagingWork kPhoto{ImageKind::kJpeg, 12'000'000};

// The imaging pool without its threads.
class DecodingSimulation {
 public:
  // `decoded` is called when an image is done with; false: it was not decoded after all.
  DecodingSimulation(Simulation& simulation, std::function<Nanos()> cost)
      : simulation_(simulation), cost_(std::move(cost)), line_(schedule_.AddLine()) {}

  Nanos Forecast(Nanos order) const {
    return schedule_.Forecast(line_, 0, order, std::span(&kPhoto, 1), simulation_.now());
  }
  void Submit(Nanos order, Nanos ready_by, std::function<void(bool)> decoded) {
    const ImagingTaskId id =
        schedule_.Add(line_, {.work = kPhoto, .order = order, .ready_by = ready_by});
    decoded_.emplace(id, std::move(decoded));
    Step();
  }

 private:
  void Step() {
    while (free_ > 0) {
      const Nanos start = simulation_.now();
      const std::optional<ImagingTaskId> id = schedule_.Next(start);
      if (!id) return;
      if (schedule_.Hopeless(*id, start)) {
        Finish(*id, false, 0);
        continue;
      }
      --free_;
      const Nanos cost = cost_();
      simulation_.At(start + cost, [this, id = *id, cost] {
        ++free_;
        Finish(id, true, cost);
        Step();
      });
    }
  }
  void Finish(ImagingTaskId id, bool decoded, Nanos took) {
    schedule_.Done(id, took, decoded ? std::optional(took) : std::nullopt, simulation_.now());
    decoded_.extract(id).mapped()(decoded);
  }

  Simulation& simulation_;
  const std::function<Nanos()> cost_;
  ImagingSchedule schedule_{kImagingThreads};
  const ImagingLineId line_;
  int free_ = kImagingThreads;
  std::unordered_map<ImagingTaskId, std::function<void(bool)>> decoded_;
};

// Images a nanosecond that can be done at most.
double Capacity(const Load& load) {
  const double device =
      kMaxBatch / static_cast<double>(load.per_batch + load.per_image * kMaxBatch);
  if (load.decode == 0) return device;
  return std::min(device, kImagingThreads / static_cast<double>(load.decode));
}

// Answers within their deadline, over what can be done.
double Goodput(const Load& load) {
  std::mt19937_64 random(1);
  Simulation simulation;
  std::lognormal_distribution<double> noise(0, 0.1);
  const QueueId queue = simulation.AddModel({.max_batch_size = kMaxBatch}, [&](const Batch& batch) {
    return static_cast<Nanos>((load.per_batch + load.per_image * batch.images) * noise(random));
  });
  for (int images = 1; images <= kMaxBatch; ++images) {  // as the warm-up does
    simulation.dispatcher().RecordLatency(queue, {images}, load.per_batch + load.per_image * images,
                                          simulation.now());
  }
  DecodingSimulation decoding(simulation, [&] {
    return static_cast<Nanos>(static_cast<double>(load.decode) * noise(random));
  });
  Dispatcher& dispatcher = simulation.dispatcher();
  const double capacity = Capacity(load);
  int good = 0;
  simulation.on_done = [&](QueueId, const Batch& batch) {
    for (const auto& task : batch.tasks) good += task->deadline() >= simulation.now();
  };
  const Nanos end = simulation.now() + kDuration;
  std::exponential_distribution<double> gap(capacity * load.overload);
  int arrivals = 0;
  std::function<void()> arrive = [&] {
    auto record = std::make_shared<TaskRecord>();
    record->arrival = simulation.now();
    const double patience = arrivals++ % 2 == 0 ? 1 : load.patience;
    record->deadline = simulation.now() + static_cast<Nanos>(load.deadline * patience);
    TaskOutline outline{.deadline = record->deadline};
    if (load.decode > 0) outline.ready_at = decoding.Forecast(record->deadline);
    absl::StatusOr<TaskId> place = dispatcher.Reserve(queue, outline, simulation.now());
    if (place.ok()) {
      const auto enqueue = [&, record, id = *place](bool decoded) {
        if (decoded) {
          dispatcher.Enqueue(queue, id, std::make_unique<FakeTask>(record), simulation.now());
        } else {
          dispatcher.Release(queue, id);
        }
        simulation.Step();
      };
      if (load.decode == 0) {
        enqueue(true);
      } else {
        const Nanos run = dispatcher.LeastRunTime(queue, {1}, simulation.now());
        decoding.Submit(record->deadline, record->deadline - run, enqueue);
      }
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
  const double goodput = Goodput(GetParam());
  RecordProperty("goodput", std::to_string(goodput));
  EXPECT_GE(goodput, 0.9 * std::min(1.0, GetParam().overload));
}

INSTANTIATE_TEST_SUITE_P(
    All, OverloadTest,
    testing::Values(
        Load{"WithinCapacity", 0.8, 200 * kMs, 0, 5 * kMs},
        Load{"TwiceTightDeadlines", 2, 100 * kMs, 0, 5 * kMs},
        Load{"Twice", 2, 500 * kMs, 0, 5 * kMs},
        Load{"TwiceFarDeadlines", 2, 5 * kSecond, 0, 5 * kMs},
        Load{"TenTimes", 10, 200 * kMs, 0, 5 * kMs},
        Load{"WithinCapacityWhereBatchingPays", 0.8, 200 * kMs, 20 * kMs, 2 * kMs},
        Load{"TwiceTightDeadlinesWhereBatchingPays", 2, 120 * kMs, 20 * kMs, 2 * kMs},
        Load{"TwiceWhereBatchingPays", 2, 500 * kMs, 20 * kMs, 2 * kMs},
        Load{"TenTimesWhereBatchingPays", 10, 200 * kMs, 20 * kMs, 2 * kMs},
        Load{"WithinCapacityOfDecoding", 0.8, 1'000 * kMs, 0, 1 * kMs, 80 * kMs},
        Load{"TwiceWhatCanBeDecoded", 2, 1'000 * kMs, 0, 1 * kMs, 80 * kMs},
        Load{"TwiceWhatCanBeDecodedTightDeadlines", 2, 400 * kMs, 0, 1 * kMs, 80 * kMs},
        Load{"TwiceWhatCanBeDecodedMixedDeadlines", 2, 500 * kMs, 0, 1 * kMs, 80 * kMs, 4},
        Load{"TenTimesWhatCanBeDecoded", 10, 1'000 * kMs, 0, 1 * kMs, 80 * kMs},
        Load{"TwiceWhereDecodingAndDeviceAreEqual", 2, 1'000 * kMs, 0, 40 * kMs, 80 * kMs},
        Load{"TwiceTheDeviceBehindLightDecoding", 2, 1'000 * kMs, 0, 40 * kMs, 40 * kMs}),
    [](const auto& info) { return info.param.name; });

// Requests alternate between a light model, which always gets its part, and a heavy one, which gets
// what is left. What light requests will take before one of the other is counted, though hardly any
// of them ever waits.
TEST(OverloadOfTwoModelsTest, WhoIsLetInIsInTimeAndTheDeviceIsUsed) {
  constexpr Nanos kLight = 1 * kMs, kHeavy = 12 * kMs;  // thread time of an image
  constexpr int kThreads = 2;
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> noise(0, 0.1);
  Simulation simulation({.device_threads = kThreads});
  const auto add_model = [&](Nanos per_image) {
    return simulation.AddModel(
        {.max_batch_size = kMaxBatch, .instances = kThreads}, [&, per_image](const Batch& batch) {
          return static_cast<Nanos>(per_image * batch.images * noise(random));
        });
  };
  const QueueId light = add_model(kLight), heavy = add_model(kHeavy);
  for (int images = 1; images <= kMaxBatch; ++images) {  // as the warm-up does
    simulation.dispatcher().RecordLatency(light, {images}, images * kLight, simulation.now());
    simulation.dispatcher().RecordLatency(heavy, {images}, images * kHeavy, simulation.now());
  }
  int in_time = 0, late = 0, of_heavy = 0;
  simulation.on_done = [&](QueueId queue, const Batch& batch) {
    for (const auto& task : batch.tasks) {
      (task->deadline() >= simulation.now() ? in_time : late) += 1;
      of_heavy += queue == heavy;
    }
  };
  const Nanos end = simulation.now() + kDuration;
  const double capacity_for_each = static_cast<double>(kThreads) / (kLight + kHeavy);
  std::exponential_distribution<double> gap(2 * 2 * capacity_for_each);  // twice, of two models
  int arrivals = 0;
  std::function<void()> arrive = [&] {
    auto record = std::make_shared<TaskRecord>();
    record->arrival = simulation.now();
    record->deadline = simulation.now() + kSecond;
    (void)simulation.Submit(++arrivals % 2 == 0 ? light : heavy, record);
    const Nanos next = simulation.now() + static_cast<Nanos>(gap(random));
    if (next < end) simulation.At(next, arrive);
  };
  arrive();
  simulation.RunToTheEnd();
  EXPECT_LT(late, in_time / 100);
  // Light requests take what they need, heavy ones the rest.
  const double left = kThreads - arrivals / 2 * static_cast<double>(kLight) / kDuration;
  EXPECT_GE(of_heavy, 0.95 * left * kDuration / kHeavy);
}

}  // namespace
}  // namespace fovea
