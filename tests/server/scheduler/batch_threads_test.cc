#include "server/scheduler/batch_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

using testing::ElementsAre;

constexpr Nanos kMs = kMillisecond;
const std::vector<int> kThreads = {1, 2, 4};

// An image takes 8 ms on one thread. On more of them a part of that is lost, as in a vision
// transformer, whose cores wait for each other at the end of each operator.
Nanos Takes(int images, int threads) {
  const int per_image_ms10 = threads == 1 ? 80 : threads == 2 ? 44 : 25;
  return images * per_image_ms10 * kMs / 10;
}

LatencyModels Measured(const std::function<Nanos(int images, int threads)>& takes = Takes) {
  LatencyModels models;
  for (const int threads : kThreads) {
    for (int images = 1; images <= 8; ++images) {
      models.Record({.images = images, .threads = threads}, takes(images, threads), 0);
    }
  }
  return models;
}

// {threads, images}, of batches that are to be filled.
std::pair<int, int> Choose(BatchDemand demand, const LatencyModels& models = Measured(),
                           Nanos now = 0) {
  demand.fill = true;
  const BatchPlan plan = PlanBatch({kThreads, 8}, demand, models.Of(0), now);
  return {plan.threads, plan.images};
}

TEST(AllowedThreadsTest, DividesTheImagesByTheThreads) {
  const AllowedThreads choice{kThreads, 6};
  EXPECT_EQ(choice.MaxImages(1), 1);
  EXPECT_EQ(choice.MaxImages(2), 3);
  EXPECT_EQ(choice.MaxImages(4), 6);
  EXPECT_EQ(choice.FewestThreadsFor(1), 1);
  EXPECT_EQ(choice.FewestThreadsFor(2), 2);
  EXPECT_EQ(choice.FewestThreadsFor(3), 2);
  EXPECT_EQ(choice.FewestThreadsFor(4), 4);
  const AllowedThreads single{kThreads, 1};
  EXPECT_EQ(single.MaxImages(1), 1);
}

TEST(AllowedThreadsTest, AnInstanceHasTheThreadsThatThoseBeforeItLeave) {
  const AllowedThreads choice{kThreads, 6};
  EXPECT_EQ(choice.MaxImagesOfInstance(0), 6);
  EXPECT_EQ(choice.MaxImagesOfInstance(1), 3) << "three threads are left, and two of them used";
  EXPECT_EQ(choice.MaxImagesOfInstance(3), 1);
  const std::vector<int> two = {2};
  EXPECT_EQ((AllowedThreads{two, 6}.MaxImagesOfInstance(3)), 6) << "each may be the largest";
}

TEST(PlanBatchTest, OneImageGetsAllFreeThreads) {
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}), std::pair(4, 1));
  EXPECT_EQ(Choose({.images = 1, .free_threads = 3}), std::pair(2, 1));
  EXPECT_EQ(Choose({.images = 1, .free_threads = 1}), std::pair(1, 1));
}

TEST(PlanBatchTest, ManyImagesAreDividedIntoABatchForEachThread) {
  EXPECT_EQ(Choose({.images = 4, .free_threads = 4}), std::pair(1, 1));
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4}), std::pair(1, 2));
  EXPECT_EQ(Choose({.images = 100, .free_threads = 4}), std::pair(1, 2));
  EXPECT_EQ(Choose({.images = 2, .free_threads = 4}), std::pair(2, 1));
}

TEST(PlanBatchTest, ByWhatWasMeasured) {
  // Two threads are of no use: the second half of a request's time is on one of them.
  const LatencyModels serial = Measured([](int images, int) { return images * 8 * kMs; });
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}, serial), std::pair(1, 1));
  // Cores that slow each other down, as threads of one core do.
  const LatencyModels shared = Measured(
      [](int images, int threads) { return images * (threads == 1 ? 8 : 3 - threads / 4) * kMs; });
  EXPECT_EQ(Choose({.images = 8, .free_threads = 2}, shared), std::pair(2, 4));
}

TEST(PlanBatchTest, AHiccupOfFewThreadsChangesNothing) {
  const LatencyModels slightly_slower = Measured(
      [](int images, int threads) { return images * (threads == 1 ? 103 : 100 / threads) * kMs; });
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4}, slightly_slower), std::pair(1, 2));
}

TEST(PlanBatchTest, BeforeTheFirstMeasurementTwiceTheThreadsHalveTheTime) {
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}, {}), std::pair(4, 1));
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4}, {}), std::pair(1, 2));
}

TEST(PlanBatchTest, ATaskOfSeveralImagesIsNotDivided) {
  EXPECT_EQ(Choose({.images = 8, .first_images = 3, .free_threads = 4}), std::pair(2, 4));
  // It waits for the threads that it needs.
  EXPECT_EQ(Choose({.images = 8, .first_images = 8, .free_threads = 2}), std::pair(4, 8));
}

TEST(PlanBatchTest, TheFirstIsInTimeIfThatCanBe) {
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4, .time_left = 17 * kMs}), std::pair(1, 2));
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4, .time_left = 15 * kMs}), std::pair(1, 2))
      << "alone it is in time, so its batch is made smaller";
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4, .time_left = 5 * kMs}), std::pair(2, 4));
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4, .time_left = 3 * kMs}), std::pair(4, 8));
  EXPECT_EQ(Choose({.images = 8, .free_threads = 4, .time_left = 1 * kMs}), std::pair(1, 2))
      << "it is late in any case";
}

TEST(PlanBatchTest, WaitsForMoreThreadsWhereOnlyWithTheseTheFirstIsInTime) {
  EXPECT_EQ(Choose({.images = 1, .free_threads = 1, .time_left = 5 * kMs}), std::pair(2, 4));
  EXPECT_EQ(Choose({.images = 1, .free_threads = 2, .time_left = 3 * kMs}), std::pair(4, 8));
  EXPECT_EQ(Choose({.images = 1, .free_threads = 1, .time_left = 2 * kMs}), std::pair(1, 1))
      << "it is late in any case";
}

TEST(PlanBatchTest, WhatLookedSlowOnceIsTriedAgain) {
  LatencyModels models;
  models.Record({.images = 1, .threads = 1}, 8 * kMs, 0);
  models.Record({.images = 1, .threads = 2}, 5 * kMs, 0);
  models.Record({.images = 1, .threads = 4}, 20 * kMs, 0);  // others had the cores
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}, models), std::pair(2, 1));
  const Nanos later = LatencyModel::kFresh;
  models.Record({.images = 1, .threads = 2}, 5 * kMs, later);
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}, models, later), std::pair(4, 1));
  models.Record({.images = 1, .threads = 4}, 20 * kMs, later);
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}, models, later), std::pair(2, 1));
}

TEST(PlanBatchTest, WhatWasFastLongAgoIsPreferredToWhatIsSlowNow) {
  LatencyModels models;
  models.Record({.images = 1, .threads = 1}, 8 * kMs, 0);
  models.Record({.images = 1, .threads = 4}, 30 * kMs, LatencyModel::kFresh);  // a busy neighbour
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}, models, LatencyModel::kFresh).first, 1);
}

TEST(PlanBatchTest, AFixedNumberStays) {
  const std::vector<int> two = {2};
  const BatchPlan plan =
      PlanBatch({two, 8}, {.images = 3, .free_threads = 4, .fill = true}, Measured().Of(0), 0);
  EXPECT_EQ(plan.threads, 2);
  EXPECT_EQ(plan.images, 8) << "an operator who gives two instances gets full batches on each";
}

// What was started, and when since the start of the test.
struct Started {
  int threads;
  int images;
  int instance;
  Nanos at;
  bool operator==(const Started&) const = default;
};

class ElasticDispatcherTest : public testing::Test {
 protected:
  ElasticDispatcherTest() {
    simulation_.on_start = [this](QueueId queue, const Batch& batch) {
      started_[queue].push_back(
          {batch.threads, batch.images, batch.instance, simulation_.now() - start_});
    };
  }
  QueueId Add(ModelQueueOptions options = {}) {
    options.max_batch_size = 8;
    options.threads_per_batch = kThreads;
    options.instances = 4;
    const QueueId queue = simulation_.AddModel(
        options, [](const Batch& batch) { return Takes(batch.images, batch.threads); });
    for (const int threads : kThreads) {
      for (const int images : {1, 2, 4, 8}) {
        simulation_.dispatcher().RecordLatency(queue, {.images = images, .threads = threads},
                                               Takes(images, threads), simulation_.now());
      }
    }
    return queue;
  }
  std::shared_ptr<TaskRecord> At(Nanos when, QueueId queue, int images = 1,
                                 Nanos deadline = kNever) {
    auto record = std::make_shared<TaskRecord>();
    record->images = images;
    record->arrival = start_ + when;
    record->deadline = deadline == kNever ? kNever : start_ + deadline;
    simulation_.At(start_ + when, [this, queue, record] {
      statuses_[record.get()] = simulation_.Submit(queue, record).status();
    });
    return record;
  }
  // So many requests that are in line at the same moment, before any of them is run.
  void Together(int requests, QueueId queue) {
    simulation_.At(start_, [this, requests, queue] {
      for (int i = 0; i < requests; ++i) {
        auto record = std::make_shared<TaskRecord>();
        record->arrival = simulation_.now();
        const TaskId id = *simulation_.dispatcher().Reserve(queue, {}, simulation_.now());
        simulation_.dispatcher().Enqueue(queue, id, std::make_unique<FakeTask>(record),
                                         simulation_.now());
      }
      simulation_.Step();
    });
  }

  Simulation simulation_{{.device_threads = 4}};
  const Nanos start_ = simulation_.now();
  std::map<QueueId, std::vector<Started>> started_;
  std::map<const TaskRecord*, absl::Status> statuses_;
};

TEST_F(ElasticDispatcherTest, FewRequestsRunOnAllThreadsOneAfterAnother) {
  const QueueId queue = Add();
  for (int i = 0; i < 3; ++i) At(i * 10 * kMs, queue);
  simulation_.RunToTheEnd();
  EXPECT_THAT(started_[queue], ElementsAre(Started{4, 1, 0, 0}, Started{4, 1, 0, 10 * kMs},
                                           Started{4, 1, 0, 20 * kMs}));
}

TEST_F(ElasticDispatcherTest, ManyRunOnOneThreadEachSideBySide) {
  const QueueId queue = Add();
  Together(8, queue);
  simulation_.RunToTheEnd();
  EXPECT_THAT(started_[queue], ElementsAre(Started{1, 2, 0, 0}, Started{1, 2, 1, 0},
                                           Started{1, 2, 2, 0}, Started{1, 2, 3, 0}));
}

TEST_F(ElasticDispatcherTest, WhoIsNeverAloneIsMany) {
  const QueueId queue = Add();
  // Two callers, each with one request under way: when a batch starts there is one in line.
  int sent = 0;
  const auto send = [&] {
    ++sent;
    auto record = std::make_shared<TaskRecord>();
    record->arrival = simulation_.now();
    (void)simulation_.Submit(queue, record);
  };
  simulation_.on_done = [&](QueueId, const Batch& batch) {
    for (size_t i = 0; i < batch.tasks.size() && sent < 400; ++i) {
      simulation_.At(simulation_.now() + kMs / 10, send);
    }
  };
  for (int caller = 0; caller < 2; ++caller) simulation_.At(start_ + caller * kMs / 10, send);
  simulation_.RunToTheEnd();
  const auto& started = started_[queue];
  ASSERT_EQ(started.size(), 400u);
  EXPECT_EQ(started[0].threads, 4);
  EXPECT_GT(std::ranges::count(started, 2, &Started::threads), 300);
}

TEST_F(ElasticDispatcherTest, GoesBackToAllThreadsWithoutStopping) {
  const QueueId queue = Add();
  Together(8, queue);
  At(100 * kMs, queue);
  simulation_.RunToTheEnd();
  EXPECT_EQ(started_[queue].back(), (Started{4, 1, 0, 100 * kMs}));
}

TEST_F(ElasticDispatcherTest, ALargeRequestWaitsForAllThreadsAndIsNotOvertakenForEver) {
  const QueueId queue = Add();
  // The first runs on all threads until 2.5 ms. Then a device full of images is in line, so that
  // the other two run together on one thread, for 16 ms.
  Together(3, queue);
  At(1 * kMs, queue, /*images=*/8);
  for (int i = 0; i < 20; ++i) At((2 + i) * kMs, queue);
  simulation_.RunToTheEnd();
  const auto large = std::ranges::find(started_[queue], 8, &Started::images);
  ASSERT_NE(large, started_[queue].end());
  EXPECT_EQ(large->threads, 4);
  EXPECT_LE(large->at, 19 * kMs);
}

TEST_F(ElasticDispatcherTest, ModelsThatHaveWorkShareTheThreads) {
  const QueueId first = Add();
  const QueueId second = Add();
  simulation_.At(start_, [&] {
    for (const QueueId queue : {first, second}) {
      auto record = std::make_shared<TaskRecord>();
      const TaskId id = *simulation_.dispatcher().Reserve(queue, {}, simulation_.now());
      simulation_.dispatcher().Enqueue(queue, id, std::make_unique<FakeTask>(record),
                                       simulation_.now());
    }
    simulation_.Step();
  });
  simulation_.RunToTheEnd();
  EXPECT_THAT(started_[first], ElementsAre(Started{2, 1, 0, 0}));
  EXPECT_THAT(started_[second], ElementsAre(Started{2, 1, 0, 0}));
}

TEST_F(ElasticDispatcherTest, WhoOnlyWaitsForBatchPeersTakesNoThreads) {
  const QueueId patient = Add({.max_queue_delay_us = 50'000});
  const QueueId queue = Add();
  At(0, patient);
  At(1 * kMs, queue);
  simulation_.RunToTheEnd();
  EXPECT_THAT(started_[queue], ElementsAre(Started{4, 1, 0, 1 * kMs}));
}

// What a request was admitted for is offered to it.
TEST_F(ElasticDispatcherTest, ARequestWaitsForTheThreadsThatItsDeadlineNeeds) {
  const QueueId narrow = simulation_.AddModel({.threads_per_batch = {2}}, [](const Batch& batch) {
    return Takes(batch.images, batch.threads);
  });
  const QueueId queue = Add();
  At(0, narrow);  // on two threads until 4.4 ms
  // On the two others it would end at 7.8 ms, on all four at 6.9.
  const auto urgent = At(34 * kMs / 10, queue, 1, /*deadline=*/76 * kMs / 10);
  simulation_.RunToTheEnd();
  EXPECT_TRUE(statuses_[urgent.get()].ok());
  EXPECT_THAT(started_[queue], ElementsAre(Started{4, 1, 0, 44 * kMs / 10}));
}

TEST_F(ElasticDispatcherTest, ADelayIsOverWhenAsManyWaitAsThereIsRoomFor) {
  const QueueId queue = Add({.max_queue_delay_us = 50'000});
  Together(8, queue);
  simulation_.RunUntil(start_);
  EXPECT_EQ(started_[queue].size(), 4u) << "the rest of a full line waits for nobody";
}

TEST_F(ElasticDispatcherTest, ForecastsByTheThreadsThatARequestWouldGet) {
  const QueueId queue = Add();
  const auto alone = At(0, queue, 1, /*deadline=*/3 * kMs);  // 2.5 ms on all threads, 8 on one
  const auto hopeless = At(50 * kMs, queue, 1, /*deadline=*/52 * kMs);
  simulation_.RunToTheEnd();
  EXPECT_TRUE(statuses_[alone.get()].ok());
  EXPECT_EQ(alone->runs, 1);
  EXPECT_EQ(ReasonOf(statuses_[hopeless.get()]), "queue.unreachable_deadline");
}

TEST_F(ElasticDispatcherTest, ALineIsForecastAsItIsRunNow) {
  const QueueId queue = Add();
  // All threads did a little better, before the cores got other work.
  for (int run = 0; run < 20; ++run) {
    simulation_.dispatcher().RecordLatency(queue, {.images = 8, .threads = 4}, 157 * kMs / 10,
                                           start_);
  }
  // For longer than a curve is trusted, always eight in line.
  for (int round = 0; round < 700; ++round) {
    for (int i = 0; i < 8; ++i) At(round * 16 * kMs, queue);
  }
  const Nanos end = 700 * 16 * kMs;
  ASSERT_GT(end, LatencyModel::kTrust);
  simulation_.RunUntil(start_ + end + kSecond);
  Dispatcher& dispatcher = simulation_.dispatcher();
  const Nanos now = simulation_.now();
  for (int i = 0; i < 16; ++i) {  // two rounds of 16 ms
    const TaskId id = *dispatcher.Reserve(queue, {}, now);
    auto record = std::make_shared<TaskRecord>();
    record->deadline = now + 47 * kMs;
    dispatcher.Enqueue(queue, id, std::make_unique<FakeTask>(record), now);
  }
  // By one thread's curve the third round ends at 48 ms, by the old one of all threads at 47.1.
  EXPECT_EQ(ReasonOf(dispatcher.Reserve(queue, {.deadline = now + 475 * kMs / 10}, now).status()),
            "queue.unreachable_deadline");
  EXPECT_TRUE(dispatcher.Reserve(queue, {.deadline = now + 49 * kMs}, now).ok());
}

TEST_F(ElasticDispatcherTest, ADelayGoesOnWhileThereIsRoomForMore) {
  const QueueId queue = Add({.max_queue_delay_us = 50'000});
  Together(4, queue);
  simulation_.RunUntil(start_);
  EXPECT_TRUE(started_[queue].empty());
}

TEST_F(ElasticDispatcherTest, WhoIsInAHurryGetsMoreThreads) {
  const QueueId queue = Add();
  int drops = 0;
  simulation_.on_drop = [&](const auto&) { ++drops; };
  simulation_.At(start_, [this, queue] {
    for (int i = 0; i < 8; ++i) {
      auto record = std::make_shared<TaskRecord>();
      record->arrival = simulation_.now();
      record->deadline = simulation_.now() + 5 * kMs;  // on one thread it takes 8 ms
      const TaskId id = *simulation_.dispatcher().Reserve(queue, {}, simulation_.now());
      simulation_.dispatcher().Enqueue(queue, id, std::make_unique<FakeTask>(record),
                                       simulation_.now());
    }
    simulation_.Step();
  });
  simulation_.RunUntil(start_);
  EXPECT_THAT(started_[queue], ElementsAre(Started{2, 1, 0, 0}, Started{2, 1, 1, 0}));
  EXPECT_EQ(drops, 0);
}

TEST(ElasticForecastTest, IsOfTheArrangementThatIsDoneSoonest) {
  // {images in line, ms until one more is done}
  const std::pair<int, double> cases[] = {{0, 2.5}, {1, 4.4}, {4, 12.5},
                                          {8, 32},  {16, 48}, {32, 80}};
  for (const auto& [ahead, least] : cases) {
    Simulation simulation({.device_threads = 4});
    Dispatcher& dispatcher = simulation.dispatcher();
    const Nanos now = simulation.now();
    const QueueId queue =
        simulation.AddModel({.max_batch_size = 8, .instances = 4, .threads_per_batch = kThreads},
                            [](const Batch& batch) { return Takes(batch.images, batch.threads); });
    for (const int threads : kThreads) {
      for (const int images : {1, 2, 4, 8}) {
        dispatcher.RecordLatency(queue, {.images = images, .threads = threads},
                                 Takes(images, threads), now);
      }
    }
    for (int i = 0; i < ahead; ++i) {
      auto record = std::make_shared<TaskRecord>();
      record->deadline = now + 1;  // before who comes
      const TaskId id = *dispatcher.Reserve(queue, {}, now);
      dispatcher.Enqueue(queue, id, std::make_unique<FakeTask>(record), now);
    }
    const auto admits = [&](double ms) {
      return dispatcher.Reserve(queue, {.deadline = now + static_cast<Nanos>(ms * kMs)}, now).ok();
    };
    EXPECT_FALSE(admits(least - 0.1)) << ahead;
    EXPECT_TRUE(admits(least + 0.001)) << ahead;
  }
}

TEST_F(ElasticDispatcherTest, ALargeRequestIsForecastOnThreadsThatHaveRoomForIt) {
  const QueueId queue = Add();
  const auto admits = [&](Nanos left) {
    const TaskOutline outline{.images = 5, .deadline = simulation_.now() + left};
    const auto place = simulation_.dispatcher().Reserve(queue, outline, simulation_.now());
    if (place.ok()) simulation_.dispatcher().Release(queue, *place);
    return place.ok();
  };
  EXPECT_TRUE(admits(125 * kMs / 10));
  EXPECT_FALSE(admits(124 * kMs / 10)) << "on four, as on no other number";
}

TEST_F(ElasticDispatcherTest, WhatOthersWaitForCountsByTheThreadsThatItGets) {
  const QueueId other = Add();
  const QueueId queue = Add();
  Dispatcher& dispatcher = simulation_.dispatcher();
  const Nanos now = simulation_.now();
  for (int i = 0; i < 8; ++i) {  // four batches of two on one thread each: 16 ms of all four
    const TaskId id = *dispatcher.Reserve(other, {}, now);
    dispatcher.Enqueue(other, id, std::make_unique<FakeTask>(std::make_shared<TaskRecord>()), now);
  }
  // Until both have had as much: 2.5 ms of each.
  EXPECT_FALSE(dispatcher.Reserve(queue, {.deadline = now + 49 * kMs / 10}, now).ok());
  EXPECT_TRUE(dispatcher.Reserve(queue, {.deadline = now + 51 * kMs / 10}, now).ok());
}

TEST_F(ElasticDispatcherTest, OfOtherShapesTheDeviceTimeCounts) {
  const QueueId queue = Add();
  Dispatcher& dispatcher = simulation_.dispatcher();
  const Nanos now = simulation_.now();
  dispatcher.RecordLatency(queue, {.images = 1, .shape_key = 7, .threads = 4}, 6 * kMs, now);
  auto record = std::make_shared<TaskRecord>();
  record->shape_key = 7;
  record->deadline = now + 1;  // before who comes
  const TaskId id = *dispatcher.Reserve(queue, {.shape_key = 7}, now);
  dispatcher.Enqueue(queue, id, std::make_unique<FakeTask>(record), now);
  // 6 ms on four threads, and then 2.5.
  EXPECT_FALSE(dispatcher.Reserve(queue, {.deadline = now + 84 * kMs / 10}, now).ok());
  EXPECT_TRUE(dispatcher.Reserve(queue, {.deadline = now + 86 * kMs / 10}, now).ok());
}

TEST(PlanBatchTest, RoundsUpAndTakesAllThatThereIsRoomFor) {
  EXPECT_EQ(Choose({.images = 7, .free_threads = 4}), std::pair(1, 2));
  EXPECT_EQ(Choose({.images = 8, .first_images = 5, .free_threads = 2}), std::pair(4, 8));
  LatencyModels part;  // one curve alone is measured
  for (int images = 1; images <= 8; ++images) {
    part.Record({.images = images, .threads = 4}, Takes(images, 4), 0);
  }
  EXPECT_EQ(Choose({.images = 1, .free_threads = 4}, part), std::pair(4, 1));
}

// Requests that come at random, at so many parts of what the device can do on one thread each.
// What the slowest tenth waits at least, in ms, and how many of 4,000 were in time.
struct Outcome {
  double p90_ms;
  int in_time;
};
Outcome Arrivals(std::vector<int> threads_per_batch, int instances, double load) {
  Simulation simulation({.device_threads = 4});
  const ModelQueueOptions options{.max_batch_size = 8,
                                  .instances = instances,
                                  .threads_per_batch = std::move(threads_per_batch)};
  const QueueId queue = simulation.AddModel(
      options, [](const Batch& batch) { return Takes(batch.images, batch.threads); });
  std::mt19937_64 random(7);
  std::exponential_distribution<double> gap(load * 4 / 8);  // each ms: 4 threads, 8 ms an image
  double at = 0;
  std::vector<std::shared_ptr<TaskRecord>> tasks;
  std::vector<Nanos> took;
  std::map<const TaskRecord*, Nanos> arrived;
  simulation.on_done = [&](QueueId, const Batch& batch) {
    for (const auto& task : batch.tasks) took.push_back(simulation.now() - RecordOf(*task).arrival);
  };
  const Nanos start = simulation.now();
  for (int i = 0; i < 4'000; ++i) {
    at += gap(random);
    simulation.At(start + static_cast<Nanos>(at * kMs), [&] {
      auto record = std::make_shared<TaskRecord>();
      record->arrival = simulation.now();
      record->deadline = simulation.now() + 100 * kMs;
      (void)simulation.Submit(queue, record);
    });
  }
  simulation.RunToTheEnd();
  std::ranges::sort(took);
  return {.p90_ms = took[took.size() * 9 / 10] * 1e-6,
          .in_time = static_cast<int>(
              std::ranges::count_if(took, [](Nanos one) { return one <= 100 * kMs; }))};
}

TEST(ElasticLoadTest, IsAboutAsGoodAsTheBetterOfTheFixedArrangements) {
  for (const double load : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    const double fixed = std::min(Arrivals({4}, 1, load).p90_ms, Arrivals({1}, 4, load).p90_ms);
    // A number of threads that turns out to be the worse one cannot be changed until the batch
    // ends.
    EXPECT_LE(Arrivals(kThreads, 4, load).p90_ms, 1.2 * fixed) << load;
  }
  EXPECT_LE(Arrivals(kThreads, 4, 0.1).p90_ms, 0.7 * Arrivals({1}, 4, 0.1).p90_ms);
  const Outcome many = Arrivals(kThreads, 4, 1.5);
  EXPECT_GE(many.in_time, 0.98 * Arrivals({1}, 4, 1.5).in_time);
  EXPECT_GE(many.in_time, 1.1 * Arrivals({4}, 1, 1.5).in_time);
}

}  // namespace
}  // namespace fovea
