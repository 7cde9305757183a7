// Which requests get a place in line.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/status.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;
constexpr Nanos kNow = kSecond;

class AdmissionTest : public testing::Test {
 protected:
  // Runs take 1 ms and 1 ms for each image.
  void Measure(QueueId queue, Nanos when = kNow) { MeasureShape(queue, 0, kMs, when); }
  // The same of one shape, in another unit than a millisecond.
  void MeasureShape(QueueId queue, uint64_t shape_key, Nanos unit, Nanos when = kNow) {
    for (int images = 1; images <= 8; ++images) {
      dispatcher_.RecordLatency(queue, {images, shape_key}, (1 + images) * unit, when);
    }
  }
  std::string Refusal(QueueId queue, const TaskOutline& outline, Nanos now = kNow) {
    absl::StatusOr<TaskId> place = dispatcher_.Reserve(queue, outline, now);
    if (place.ok()) dispatcher_.Release(queue, *place);
    return ReasonOf(place.status());
  }
  // Puts tasks in line without letting any of them start.
  void Fill(QueueId queue, int tasks, Nanos deadline = kNever, uint64_t shape_key = 0) {
    for (int i = 0; i < tasks; ++i) {
      auto record = std::make_shared<TaskRecord>();
      record->deadline = deadline;
      record->shape_key = shape_key;
      absl::StatusOr<TaskId> place = dispatcher_.Reserve(queue, {}, kNow);
      ASSERT_TRUE(place.ok()) << place.status();
      dispatcher_.Enqueue(queue, *place, std::make_unique<FakeTask>(record), kNow);
    }
  }

  // Starts the batches that can start; how many.
  int Start(Nanos now) {
    Dispatcher::Work work = dispatcher_.Next(now);
    for (auto& start : work.starts) start.batch->MoveTo(BatchState::kRunning);
    return static_cast<int>(work.starts.size());
  }

  Dispatcher dispatcher_{{}};
};

TEST_F(AdmissionTest, RefusesWhenEveryPlaceIsTaken) {
  const QueueId queue = dispatcher_.AddQueue({.policies = {{.max_queue_size = 2}}});
  const TaskId first = *dispatcher_.Reserve(queue, {}, kNow);
  ASSERT_TRUE(dispatcher_.Reserve(queue, {}, kNow).ok());
  absl::Status full = dispatcher_.Reserve(queue, {}, kNow).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(full), "queue.full");
  dispatcher_.Release(queue, first);
  EXPECT_EQ(Refusal(queue, {}), "");
  dispatcher_.Release(queue, first);  // counts once
  ASSERT_TRUE(dispatcher_.Reserve(queue, {}, kNow).ok());
  EXPECT_EQ(Refusal(queue, {}), "queue.full");
}

TEST_F(AdmissionTest, EachPriorityHasPlacesOfItsOwn) {
  const QueueId queue =
      dispatcher_.AddQueue({.policies = {{.max_queue_size = 2}, {.max_queue_size = 1}}});
  const TaskId low = *dispatcher_.Reserve(queue, {.priority = 1}, kNow);
  EXPECT_EQ(Refusal(queue, {.priority = 1}), "queue.full");
  Fill(queue, 1);
  const TaskId high = *dispatcher_.Reserve(queue, {}, kNow);
  EXPECT_EQ(Refusal(queue, {}), "queue.full") << "in line and reserved together";
  dispatcher_.Release(queue, low);
  EXPECT_EQ(Refusal(queue, {}), "queue.full") << "another priority's place is no help";
  EXPECT_EQ(Refusal(queue, {.priority = 1}), "");
  dispatcher_.Release(queue, high);
  EXPECT_EQ(Refusal(queue, {}), "");
}

TEST_F(AdmissionTest, GivesThePlaceOfATaskThatRunsToTheNext) {
  const QueueId queue = dispatcher_.AddQueue({.policies = {{.max_queue_size = 1}}});
  Fill(queue, 1);
  EXPECT_EQ(Refusal(queue, {}), "queue.full");
  EXPECT_EQ(Start(kNow), 1);
  EXPECT_EQ(Refusal(queue, {}), "");
}

TEST_F(AdmissionTest, LetsNoExpiredTaskKeepAPlace) {
  const QueueId queue = dispatcher_.AddQueue({.policies = {{.max_queue_size = 2}}});
  Fill(queue, 2, kNow + 5);
  EXPECT_EQ(Refusal(queue, {}, kNow + 4), "queue.full");
  EXPECT_EQ(Refusal(queue, {}, kNow + 5), "");
  EXPECT_EQ(dispatcher_.Next(kNow + 5).drops.size(), 2u);
}

// docs/faults.md, row 36.
TEST_F(AdmissionTest, RefusesADeadlineThatHasPassed) {
  const QueueId queue = dispatcher_.AddQueue({});
  EXPECT_EQ(Refusal(queue, {.deadline = 0}), "queue.expired");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow - 1}), "queue.expired");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow}), "queue.expired");
  EXPECT_EQ(dispatcher_.Reserve(queue, {.deadline = 0}, kNow).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(AdmissionTest, RefusesADeadlineThatOneRunWouldMiss) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 8});
  Measure(queue);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 1 * kMs}), "queue.unreachable_deadline");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 2 * kMs}), "");
  EXPECT_EQ(Refusal(queue, {.images = 4, .deadline = kNow + 4 * kMs}),
            "queue.unreachable_deadline");
  EXPECT_EQ(Refusal(queue, {.images = 4, .deadline = kNow + 5 * kMs}), "");
}

TEST_F(AdmissionTest, JudgesADeadlineByTheCurveOfItsShape) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 8});
  Measure(queue);
  MeasureShape(queue, 1, 10 * kMs);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 2 * kMs}), "");
  EXPECT_EQ(Refusal(queue, {.shape_key = 1, .deadline = kNow + 19 * kMs}),
            "queue.unreachable_deadline");
  EXPECT_EQ(Refusal(queue, {.shape_key = 1, .deadline = kNow + 20 * kMs}), "");
  // Of a shape that was never measured nothing is known.
  EXPECT_EQ(Refusal(queue, {.shape_key = 2, .deadline = kNow + 1}), "");
  EXPECT_EQ(dispatcher_.LeastRunTime(queue, {1, 1}, kNow), 20 * kMs);
}

// Eight of another shape are a batch of their own, of 90 ms, which runs first.
TEST_F(AdmissionTest, CountsTheBatchesOfOtherShapesThatGoFirst) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 8});
  Measure(queue);
  MeasureShape(queue, 1, 10 * kMs);
  Fill(queue, 8, kNow + 91 * kMs, /*shape_key=*/1);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 93 * kMs - 1 * kMs - 1}),
            "queue.unreachable_deadline");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 93 * kMs}), "");
  // Those that come after it do not count.
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 90 * kMs}), "");
}

TEST_F(AdmissionTest, AcceptsADeadlineTenYearsAwayAndTheFarthestThereIs) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 8, .max_queue_delay_us = 1'000});
  Measure(queue);
  for (Nanos deadline : {kNow + 10 * 365 * 86'400 * kSecond, kNever - 1}) {
    const TaskId place = *dispatcher_.Reserve(queue, {.deadline = deadline}, kNow);
    auto record = std::make_shared<TaskRecord>();
    record->deadline = deadline;
    dispatcher_.Enqueue(queue, place, std::make_unique<FakeTask>(record), kNow);
  }
  EXPECT_EQ(dispatcher_.Next(kNow).wake_at, kNow + 1 * kMs);
  EXPECT_EQ(Start(kNow + 1 * kMs), 1);
}

TEST_F(AdmissionTest, CountsWhatIsInLineAndWhatIsReserved) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 8});
  Measure(queue);
  Fill(queue, 8);
  EXPECT_EQ(Start(kNow), 1);  // a batch of 8 runs until 9 ms
  Fill(queue, 8, kNow + 20 * kMs);
  const TaskOutline outline{.deadline = kNow + 26 * kMs};  // 9 + 9 + 9 with whoever else comes
  EXPECT_EQ(Refusal(queue, outline), "queue.unreachable_deadline");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 27 * kMs}), "");
  const TaskId peer = *dispatcher_.Reserve(queue, {.images = 8, .deadline = kNow + 27 * kMs}, kNow);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 27 * kMs}), "queue.unreachable_deadline");
  dispatcher_.Release(queue, peer);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 27 * kMs}), "");
}

TEST_F(AdmissionTest, DoesNotCountWhatAnUrgentRequestWouldOvertake) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 1, .policies = {{}, {}}});
  dispatcher_.RecordLatency(queue, {1}, 2 * kMs, kNow);
  Fill(queue, 1);
  EXPECT_EQ(Start(kNow), 1);  // until 2 ms
  Fill(queue, 100, kNow + kSecond);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 4 * kMs}), "");
  EXPECT_EQ(Refusal(queue, {.priority = 1, .deadline = kNow + 4 * kMs}),
            "queue.unreachable_deadline");
}

TEST_F(AdmissionTest, CountsReservedImagesOnlyWhereTheyWouldComeFirst) {
  const QueueId queue =
      dispatcher_.AddQueue({.max_batch_size = 1, .policies = {{.max_queue_size = 1'000}, {}}});
  dispatcher_.RecordLatency(queue, {1}, 2 * kMs, kNow);
  const TaskOutline urgent{.deadline = kNow + 4 * kMs};
  for (int i = 0; i < 50; ++i) {  // they are still being decoded
    (void)*dispatcher_.Reserve(queue, {.priority = 1, .deadline = kNow + kSecond}, kNow);
    (void)*dispatcher_.Reserve(queue, {.deadline = kNow + kSecond}, kNow);
    (void)*dispatcher_.Reserve(queue, {}, kNow);
  }
  EXPECT_EQ(Refusal(queue, urgent), "");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 2 * kSecond}), "");
  const TaskId sooner = *dispatcher_.Reserve(queue, {.deadline = kNow + 2 * kMs}, kNow);
  EXPECT_EQ(Refusal(queue, urgent), "");
  (void)*dispatcher_.Reserve(queue, {.deadline = kNow + 4 * kMs}, kNow);
  EXPECT_EQ(Refusal(queue, urgent), "queue.unreachable_deadline");
  dispatcher_.Release(queue, sooner);
  EXPECT_EQ(Refusal(queue, urgent), "");
}

TEST_F(AdmissionTest, CountsTheTimeUntilARequestIsDecoded) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 8});
  Measure(queue);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 10 * kMs, .ready_at = kNow + 8 * kMs}), "");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 10 * kMs, .ready_at = kNow + 9 * kMs}),
            "queue.unreachable_deadline");
}

TEST_F(AdmissionTest, CountsTheTurnsOfOtherModels) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 1});
  const QueueId competing = dispatcher_.AddQueue({.max_batch_size = 1});
  dispatcher_.RecordLatency(queue, {1}, 2 * kMs, kNow);
  dispatcher_.RecordLatency(competing, {1}, 2 * kMs, kNow);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 3 * kMs}), "");
  Fill(competing, 50);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 3 * kMs}), "queue.unreachable_deadline");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 4 * kMs}), "");  // one turn each
}

TEST_F(AdmissionTest, CountsTheTurnsOfOtherModelsByTheirWeights) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 1, .rate_limiter_priority = 2});
  const QueueId competing = dispatcher_.AddQueue({.max_batch_size = 1});
  dispatcher_.RecordLatency(queue, {1}, 2 * kMs, kNow);
  dispatcher_.RecordLatency(competing, {1}, 2 * kMs, kNow);
  Fill(competing, 50);
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 5 * kMs}), "queue.unreachable_deadline");
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 6 * kMs}), "");  // two turns of it, then its own
}

TEST_F(AdmissionTest, RefusesNothingByACurveThatItDoesNotKnowOrNoLongerTrusts) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 8});
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + 1}), "");
  dispatcher_.RecordLatency(queue, {1}, 3600 * kSecond,
                            kNow);  // a hiccup, as while a laptop sleeps
  EXPECT_EQ(Refusal(queue, {.deadline = kNow + kSecond}), "queue.unreachable_deadline");
  const Nanos later = kNow + LatencyModel::kTrust;
  EXPECT_EQ(Refusal(queue, {.deadline = later + kSecond}, later), "");
  // Whoever was let in is also run, and measured.
  auto probe = std::make_shared<TaskRecord>();
  probe->deadline = later + kSecond;
  const TaskId place = *dispatcher_.Reserve(queue, {.deadline = probe->deadline}, later);
  dispatcher_.Enqueue(queue, place, std::make_unique<FakeTask>(probe), later);
  EXPECT_EQ(Start(later), 1);
}

TEST_F(AdmissionTest, RefusesBatchesThatTheModelCannotTake) {
  const QueueId queue = dispatcher_.AddQueue({.max_batch_size = 4});
  EXPECT_EQ(Refusal(queue, {.images = 4}), "");
  for (int images : {5, 0, -1}) {
    absl::Status status = dispatcher_.Reserve(queue, {.images = images}, kNow).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << images;
    EXPECT_EQ(ReasonOf(status), "queue.bad_batch");
  }
  EXPECT_EQ(Refusal(queue, {.priority = -1}), "queue.bad_priority");
  EXPECT_EQ(Refusal(queue, {.priority = 1}), "queue.bad_priority");
}

}  // namespace
}  // namespace fovea
