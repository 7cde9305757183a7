#include "server/scheduler/batch_policy.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

constexpr Nanos kMs = kMillisecond;
constexpr Nanos kNow = 100 * kMs;

// Runs take 2 ms and 1 ms for each image.
LatencyModel Curve() {
  LatencyModel curve;
  for (int images = 1; images <= 8; ++images) curve.Record(images, (2 + images) * kMs, kNow);
  return curve;
}

class BatchPolicyTest : public testing::Test {
 protected:
  BatchPolicy::Snapshot Idle(int images) const {
    return {.images = images,
            .most_images = 8,
            .room = 8,
            .first_images = images,
            .device_idle = true,
            .latency = &curve_};
  }

  static testing::AssertionResult Closes(const BatchPolicy::Decision& decision, int images,
                                         CloseReason why) {
    const auto* close = std::get_if<BatchPolicy::Close>(&decision);
    if (close == nullptr) return testing::AssertionFailure() << "waits";
    if (close->images == images && close->why == why) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "closes with " << close->images << ": " << CloseReasonName(close->why);
  }

  static testing::AssertionResult Waits(const BatchPolicy::Decision& decision, Nanos until) {
    const auto* wait = std::get_if<BatchPolicy::WaitUntil>(&decision);
    if (wait == nullptr) return testing::AssertionFailure() << "closes";
    if (wait->when == until) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "waits until " << wait->when;
  }

  const LatencyModel curve_ = Curve();
  const BatchPolicy at_once_{{.max_batch_size = 8}};
  const BatchPolicy patient_{{.max_batch_size = 8, .max_queue_delay = 5 * kMs}};
  const BatchPolicy choosy_{
      {.max_batch_size = 8, .preferred_batch_sizes = {6, 2}, .max_queue_delay = 5 * kMs}};
};

TEST_F(BatchPolicyTest, ClosesAtOnceOnAnIdleDeviceWhenThereIsNoDelay) {
  EXPECT_TRUE(Closes(at_once_.Next(Idle(1), kNow), 1, CloseReason::kIdle));
}

TEST_F(BatchPolicyTest, WaitsForBatchPeersWhileTheDeviceIsBusy) {
  BatchPolicy::Snapshot busy = Idle(1);
  busy.device_idle = false;
  EXPECT_TRUE(Waits(at_once_.Next(busy, kNow), kNever));
  busy.images = 8;
  EXPECT_TRUE(Waits(at_once_.Next(busy, kNow), kNever));
  busy.longest_wait = kSecond;
  EXPECT_TRUE(Waits(patient_.Next(busy, kNow), kNever));
}

TEST_F(BatchPolicyTest, WaitsForBatchPeersAsLongAsTheDelayAllows) {
  BatchPolicy::Snapshot waiting = Idle(3);
  waiting.longest_wait = 2 * kMs;
  EXPECT_TRUE(Waits(patient_.Next(waiting, kNow), kNow + 3 * kMs));
}

TEST_F(BatchPolicyTest, NeverHoldsAnIdleDevicePastTheDelay) {
  for (Nanos wait = 0; wait <= 20 * kMs; wait += kMs / 4) {
    BatchPolicy::Snapshot waiting = Idle(3);
    waiting.longest_wait = wait;
    const BatchPolicy::Decision decision = patient_.Next(waiting, kNow);
    if (wait >= 5 * kMs) {
      EXPECT_TRUE(Closes(decision, 3, CloseReason::kDelay)) << wait;
    } else {
      EXPECT_TRUE(Waits(decision, kNow + 5 * kMs - wait)) << wait;
    }
  }
}

TEST_F(BatchPolicyTest, ClosesAFullBatchWithoutDelay) {
  EXPECT_TRUE(Closes(patient_.Next(Idle(8), kNow), 8, CloseReason::kFull));
  EXPECT_TRUE(Closes(patient_.Next(Idle(100), kNow), 8, CloseReason::kFull));
}

TEST_F(BatchPolicyTest, SendsTheLargestPreferredSizeThatCanBeFormed) {
  EXPECT_TRUE(Closes(choosy_.Next(Idle(2), kNow), 2, CloseReason::kPreferred));
  EXPECT_TRUE(Closes(choosy_.Next(Idle(5), kNow), 2, CloseReason::kPreferred));
  EXPECT_TRUE(Closes(choosy_.Next(Idle(6), kNow), 6, CloseReason::kPreferred));
  EXPECT_TRUE(Closes(choosy_.Next(Idle(9), kNow), 6, CloseReason::kPreferred));
}

TEST_F(BatchPolicyTest, WaitsForAPreferredSizeUntilTheDelayIsUsedUp) {
  BatchPolicy::Snapshot one = Idle(1);
  EXPECT_TRUE(Waits(choosy_.Next(one, kNow), kNow + 5 * kMs));
  one.longest_wait = 5 * kMs;
  EXPECT_TRUE(Closes(choosy_.Next(one, kNow), 1, CloseReason::kDelay));
}

TEST_F(BatchPolicyTest, ClosesWhenWaitingWouldMissTheEarliestDeadline) {
  BatchPolicy::Snapshot urgent = Idle(3);  // takes 5 ms
  urgent.first_deadline = kNow + 5 * kMs;
  EXPECT_TRUE(Closes(patient_.Next(urgent, kNow), 3, CloseReason::kDeadline));
}

TEST_F(BatchPolicyTest, WaitsNoLongerThanTheEarliestDeadlineAllows) {
  BatchPolicy::Snapshot urgent = Idle(3);
  urgent.first_deadline = kNow + 7 * kMs;
  EXPECT_TRUE(Waits(patient_.Next(urgent, kNow), kNow + 2 * kMs));
  urgent.first_deadline = kNow + kSecond;
  EXPECT_TRUE(Waits(patient_.Next(urgent, kNow), kNow + 5 * kMs));
}

TEST_F(BatchPolicyTest, TakesNoMoreImagesThanTheEarliestDeadlineLeavesTimeFor) {
  BatchPolicy::Snapshot urgent = Idle(20);  // 8 images would take 10 ms
  urgent.first_deadline = kNow + 6 * kMs;
  EXPECT_TRUE(Closes(patient_.Next(urgent, kNow), 4, CloseReason::kDeadline));
  urgent.first_deadline = kNow + 10 * kMs;
  EXPECT_TRUE(Closes(patient_.Next(urgent, kNow), 8, CloseReason::kFull));
}

TEST_F(BatchPolicyTest, RunsAFullBatchWhenTheDeadlineIsLostInAnyCase) {
  BatchPolicy::Snapshot late = Idle(20);
  late.first_deadline = kNow + 1 * kMs;
  EXPECT_TRUE(Closes(patient_.Next(late, kNow), 8, CloseReason::kFull));
}

TEST_F(BatchPolicyTest, IgnoresDeadlinesBeforeAnythingWasMeasured) {
  const LatencyModel nothing;
  BatchPolicy::Snapshot urgent = Idle(3);
  urgent.latency = &nothing;
  urgent.first_deadline = kNow + 1;
  EXPECT_TRUE(Waits(patient_.Next(urgent, kNow), kNow + 1));
}

TEST_F(BatchPolicyTest, WaitsForNobodyWhileDraining) {
  BatchPolicy::Snapshot last = Idle(3);
  last.draining = true;
  EXPECT_TRUE(Closes(patient_.Next(last, kNow), 3, CloseReason::kDrain));
  last.images = 30;
  EXPECT_TRUE(Closes(patient_.Next(last, kNow), 8, CloseReason::kFull));
  last.device_idle = false;
  EXPECT_TRUE(Waits(patient_.Next(last, kNow), kNever));
}

TEST(BatchTest, GoesOneWayOnly) {
  Batch batch;
  batch.MoveTo(BatchState::kClosed);
  batch.MoveTo(BatchState::kRunning);
  batch.MoveTo(BatchState::kDone);
  EXPECT_EQ(batch.state(), BatchState::kDone);
  EXPECT_DEATH(batch.MoveTo(BatchState::kOpen), "check failed");
  EXPECT_DEATH(Batch().MoveTo(BatchState::kRunning), "check failed");
}

TEST(BatchTest, IsNotLostOnceItIsClosed) {
  EXPECT_DEATH(Batch().MoveTo(BatchState::kClosed), "check failed");
}

TEST_F(BatchPolicyTest, ALowerPrioritysDeadlineKeepsOnlyLowerPrioritiesOut) {
  BatchPolicy::Snapshot mixed = Idle(8);
  mixed.first_images = 4;
  mixed.behind_deadline = kNow + 8 * kMs;  // six images take so long
  EXPECT_TRUE(Closes(at_once_.Next(mixed, kNow), 6, CloseReason::kDeadline));
  mixed.behind_deadline = kNow + 4 * kMs;  // two: no room for it behind the first four
  EXPECT_TRUE(Closes(at_once_.Next(mixed, kNow), 8, CloseReason::kFull));
  mixed.first_deadline = kNow + 6 * kMs;
  EXPECT_TRUE(Closes(at_once_.Next(mixed, kNow), 4, CloseReason::kDeadline));
  mixed.first_deadline = kNow + 5 * kMs;
  EXPECT_TRUE(Closes(at_once_.Next(mixed, kNow), 3, CloseReason::kDeadline));
}

TEST_F(BatchPolicyTest, AnIdleDeviceDoesNotWaitPastALowerPrioritysDeadline) {
  BatchPolicy::Snapshot mixed = Idle(2);
  mixed.first_images = 1;
  mixed.behind_deadline = kNow + 7 * kMs;  // the two take four
  EXPECT_TRUE(Waits(patient_.Next(mixed, kNow), kNow + 3 * kMs));
}

}  // namespace
}  // namespace fovea
