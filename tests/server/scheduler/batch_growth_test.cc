// How far batches grow where larger ones hardly pay.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "server/scheduler/batch_threads.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;

// A batch costs 2 ms and each image 8.
Nanos Takes(int images) { return (2 + 8 * images) * kMs; }

LatencyModels Measured(int threads) {
  LatencyModels models;
  for (int images = 1; images <= 8; ++images) {
    models.Record({.images = images, .threads = threads}, Takes(images) / threads, 0);
  }
  return models;
}

TEST(PlanBatchTest, ABatchHasNoMoreImagesThanPay) {
  const std::vector<int> one = {1}, several = {1, 2, 4};
  const LatencyModels measured = Measured(1);
  const auto images = [&](const std::vector<int>& threads, BatchDemand demand, Nanos now = 0) {
    return PlanBatch({threads, 8}, demand, measured.Of(0), now).images;
  };
  EXPECT_EQ(images(one, {.images = 8}), 4) << "8.5 ms each, of eight 8.25; of three 8.7";
  EXPECT_EQ(images(one, {.images = 8, .fill = true}), 8);
  EXPECT_EQ(images(several, {.images = 7}), 2) << "a thread's part of the largest batch";
  EXPECT_EQ(images(one, {.images = 8, .first_images = 5}), 5) << "a request is not divided";
  EXPECT_EQ(images(one, {.images = 8}, LatencyModel::kFresh), 8) << "what pays was long ago";
}

TEST(PlanBatchTest, SoDoesOneThatWaitsForMoreThreads) {
  const std::vector<int> several = {1, 2};
  LatencyModels measured;
  for (int images = 1; images <= 8; ++images) {
    measured.Record({.images = images, .threads = 1}, Takes(images), 0);
    measured.Record({.images = images, .threads = 2}, Takes(images) / 2, 0);
  }
  const BatchPlan plan =
      PlanBatch({several, 8}, {.images = 8, .time_left = 6 * kMs}, measured.Of(0), 0);
  EXPECT_EQ(plan.threads, 2) << "one is free, on which an image takes 10 ms";
  EXPECT_EQ(plan.images, 4);
}

// The images of the first batch of a model for which batching pays little, where so many requests
// come at the same moment, to a device of one thread.
int FirstBatch(ModelQueueOptions options, int requests, bool others_have_work = false) {
  options.max_batch_size = 8;
  Simulation simulation;
  const auto add = [&](const ModelQueueOptions& model) {
    return simulation.AddModel(model, [&](const Batch& batch) { return Takes(batch.images); });
  };
  const QueueId queue = add(options), other = add({});
  for (int images = 1; images <= 8; ++images) {
    simulation.dispatcher().RecordLatency(queue, {.images = images}, Takes(images),
                                          simulation.now());
  }
  const auto put_in_line = [&](QueueId to) {
    const TaskId id = *simulation.dispatcher().Reserve(to, {}, simulation.now());
    simulation.dispatcher().Enqueue(
        to, id, std::make_unique<FakeTask>(std::make_shared<TaskRecord>()), simulation.now());
  };
  for (int i = 0; i < requests; ++i) put_in_line(queue);
  for (int i = 0; others_have_work && i < 3; ++i) put_in_line(other);
  int first = 0;
  simulation.on_start = [&](QueueId of, const Batch& batch) {
    if (of == queue && first == 0) first = batch.images;
  };
  simulation.Step();
  simulation.RunToTheEnd();
  return first;
}

TEST(FirstBatchTest, IsFilledWhereThroughputCountsMoreThanLatency) {
  EXPECT_EQ(FirstBatch({}, 7), 4);
  EXPECT_EQ(FirstBatch({}, 8), 8) << "so many fill the device";
  EXPECT_EQ(FirstBatch({}, 7, /*others_have_work=*/true), 7);
  EXPECT_EQ(FirstBatch({.preferred_batch_sizes = {6}}, 7), 6) << "its operator prefers that";
  EXPECT_EQ(FirstBatch({.max_queue_delay_us = 1}, 7), 7) << "and waits for batch peers";
}

}  // namespace
}  // namespace fovea
