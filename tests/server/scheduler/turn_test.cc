// Whose turn it is, in virtual time: shares count where somebody could be late.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;

// Models whose latency curves are known from the start, on a device of one thread.
class TurnTest : public testing::Test {
 protected:
  // A batch takes `per_batch` and `per_image` for each image.
  QueueId Add(Nanos per_batch, Nanos per_image = 0, int max_batch_size = 4) {
    const auto took = [=](int images) { return per_batch + per_image * images; };
    const QueueId queue = simulation_.AddModel(
        {.max_batch_size = max_batch_size, .policies = {{.max_queue_size = 1'000}}},
        [took](const Batch& batch) { return took(batch.images); });
    for (int images = 1; images <= max_batch_size; ++images) {
      simulation_.dispatcher().RecordLatency(queue, {.images = images}, took(images),
                                             simulation_.now());
    }
    return queue;
  }
  // Submits one that leaves the caller so much patience.
  std::shared_ptr<TaskRecord> Submit(QueueId queue, Nanos patience = kNever) {
    auto record = std::make_shared<TaskRecord>();
    record->arrival = simulation_.now();
    if (patience != kNever) record->deadline = simulation_.now() + patience;
    EXPECT_TRUE(simulation_.Submit(queue, record).ok());
    return record;
  }
  // Keeps the line of a model at `length` until `end`; counts the device time in `used_`.
  void Saturate(QueueId queue, int length, Nanos patience, Nanos end) {
    while (simulation_.now() < end && simulation_.dispatcher().waiting(queue) < length) {
      auto record = std::make_shared<TaskRecord>();
      record->arrival = simulation_.now();
      if (patience != kNever) record->deadline = simulation_.now() + patience;
      if (!simulation_.Submit(queue, record).ok()) break;
    }
    if (simulation_.now() < end) {
      simulation_.At(simulation_.now() + kMs,
                     [=, this] { Saturate(queue, length, patience, end); });
    }
  }

  Simulation simulation_;
};

TEST_F(TurnTest, WhoCanWaitLetsThoseGoWhoCannot) {
  const QueueId busy = Add(10 * kMs), patient = Add(10 * kMs), pressed = Add(10 * kMs);
  std::vector<QueueId> order;
  simulation_.on_start = [&](QueueId queue, const Batch&) { order.push_back(queue); };
  Submit(busy);
  simulation_.RunUntil(simulation_.now() + kMs);
  Submit(patient, 500 * kMs);
  Submit(pressed, 40 * kMs);
  simulation_.RunToTheEnd();
  EXPECT_EQ(order, (std::vector<QueueId>{busy, pressed, patient}));
}

TEST_F(TurnTest, WhereNobodyIsDueTheFirstThatHasToStartGoesFirst) {
  const QueueId busy = Add(10 * kMs), late = Add(10 * kMs), early = Add(10 * kMs);
  std::vector<QueueId> order;
  simulation_.on_start = [&](QueueId queue, const Batch&) { order.push_back(queue); };
  Submit(busy);
  simulation_.RunUntil(simulation_.now() + kMs);
  Submit(late, 900 * kMs);
  Submit(early, 800 * kMs);
  simulation_.RunToTheEnd();
  EXPECT_EQ(order, (std::vector<QueueId>{busy, early, late}));
}

// Asks two light models for an image each, every `every`, beside a heavy one that is flooded: the
// requests of the light ones, and how many were answered in time.
struct Asked {
  int requests = 0;
  int in_time = 0;
};

class FloodTest : public TurnTest {
 protected:
  Asked Ask(Nanos flood_patience, Nanos light_patience, Nanos every) {
    // Alone an image takes 5 ms, and a full batch so long that nobody waits for four of them.
    const QueueId heavy = Add(100 * kMs);
    const QueueId light[] = {Add(0, 5 * kMs, 32), Add(0, 5 * kMs, 32)};
    const Nanos end = simulation_.now() + 20 * kSecond;
    Asked asked;
    simulation_.on_done = [&](QueueId queue, const Batch& batch) {
      if (queue == heavy) return;
      for (const auto& task : batch.tasks) {
        asked.in_time += simulation_.now() <= task->arrival() + light_patience;
      }
    };
    std::function<void()> ask = [&] {
      for (const QueueId queue : light) {
        ++asked.requests;
        auto record = std::make_shared<TaskRecord>();
        record->arrival = simulation_.now();
        record->deadline = simulation_.now() + light_patience;
        EXPECT_TRUE(simulation_.Submit(queue, record).ok());
      }
      if (simulation_.now() < end) simulation_.At(simulation_.now() + every, ask);
    };
    Saturate(heavy, 100, flood_patience, end);
    simulation_.At(simulation_.now() + kMs, ask);
    simulation_.RunUntil(end + kSecond);
    return asked;
  }
};

TEST_F(FloodTest, MakesNobodyLateWhoUsesLessThanAShare) {
  const Asked asked = Ask(kNever, 150 * kMs, 61 * kMs);
  EXPECT_GT(asked.requests, 600);
  EXPECT_EQ(asked.in_time, asked.requests);
}

TEST_F(FloodTest, WithNearDeadlinesMakesNobodyLateEither) {
  const Asked asked = Ask(300 * kMs, 150 * kMs, 61 * kMs);
  EXPECT_GT(asked.requests, 600);
  EXPECT_EQ(asked.in_time, asked.requests);
}

TEST_F(TurnTest, WhoNamesNoDeadlineWaitsForOneTurn) {
  const QueueId flood = Add(10 * kMs), quiet = Add(0, 5 * kMs, 32);
  Saturate(flood, 20, kNever, simulation_.now() + 5 * kSecond);
  simulation_.RunUntil(simulation_.now() + kSecond);
  const Nanos asked = simulation_.now();
  Nanos answered = kNever;
  simulation_.on_done = [&](QueueId queue, const Batch&) {
    if (queue == quiet) answered = simulation_.now();
  };
  Submit(quiet);
  simulation_.RunUntil(asked + kSecond);
  EXPECT_LE(answered - asked, 25 * kMs);  // the batch that runs, a turn of the other, its own
}

TEST_F(TurnTest, AFarDeadlineIsNoWishToWait) {
  const QueueId flood = Add(10 * kMs), far = Add(10 * kMs);
  Saturate(flood, 20, kNever, simulation_.now() + 5 * kSecond);
  simulation_.RunUntil(simulation_.now() + kSecond);
  const Nanos asked = simulation_.now();
  Nanos answered = 0;
  simulation_.on_done = [&](QueueId queue, const Batch&) {
    if (queue == far) answered = simulation_.now();
  };
  Submit(far, 3'600 * kSecond);
  simulation_.RunUntil(asked + kSecond);
  ASSERT_GT(answered, 0);
  // Four full batches of patience, the batch that runs then, one turn of the other, its own run.
  EXPECT_LE(answered - asked, 80 * kMs);
}

TEST_F(TurnTest, WhatRunsWhileNobodyIsDueIsNoDebt) {
  const QueueId early = Add(10 * kMs), other = Add(10 * kMs);
  std::map<QueueId, int> runs;
  simulation_.on_start = [&](QueueId queue, const Batch&) { ++runs[queue]; };
  for (int i = 0; i < 200; ++i) {  // alone on the device, and never due
    Submit(early, kSecond);
    simulation_.RunUntil(simulation_.now() + 11 * kMs);
  }
  ASSERT_EQ(runs[early], 200);
  runs.clear();
  const Nanos end = simulation_.now() + kSecond;
  Saturate(other, 20, kNever, end);
  Saturate(early, 20, kNever, end);
  simulation_.RunUntil(end);
  EXPECT_NEAR(runs[early], runs[other], 4);
  EXPECT_GT(runs[early], 40);
}

}  // namespace
}  // namespace fovea
