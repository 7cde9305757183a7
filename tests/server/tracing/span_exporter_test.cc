#include "server/tracing/span_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/core/testing/fake_clock.h"
#include "tests/server/tracing/fake_sink.h"

namespace fovea {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Counts = CountingObserver::Counts;

// docs/faults.md, row 81.
class SpanExporterTest : public ::testing::Test {
 protected:
  void Start(const SpanExporterOptions& options = {}) {
    exporter_ =
        *SpanExporter::Create(options, std::make_unique<FakeSink>(collector_), observer_, clock_);
  }
  void Add(size_t spans) { exporter_->Add(std::vector<Span>(spans)); }
  // Until the thread has nothing to do before some time has passed.
  void Pass(Nanos time) {
    clock_.AwaitWaiters(1);
    clock_.Advance(time);
  }

  FakeClock clock_;
  Collector collector_;
  CountingObserver observer_;
  std::unique_ptr<SpanExporter> exporter_;
};

TEST_F(SpanExporterTest, SpansAreSentTogetherAfterTheDelay) {
  Start({.delay = kSecond});
  Add(1);
  Add(2);
  EXPECT_EQ(collector_.attempts(), 0);
  Pass(kSecond);
  observer_.AwaitEnded(3);
  EXPECT_THAT(collector_.batches(), ElementsAre(3));
  EXPECT_EQ(observer_.counts(), (Counts{3, 0, 0, 0}));
}

TEST_F(SpanExporterTest, AFullBatchDoesNotWait) {
  Start({.max_batch = 4, .delay = 3600 * kSecond});
  Add(9);
  observer_.AwaitEnded(8);
  EXPECT_THAT(collector_.batches(), ElementsAre(4, 4));
}

TEST_F(SpanExporterTest, WhatDoesNotFitIsDroppedAsAWholeAndCounted) {
  collector_.Hang();
  Start({.max_waiting = 10, .max_batch = 4});
  Add(4);
  collector_.AwaitAttempts(1);  // these are out of the queue
  Add(8);
  Add(3);  // does not fit: all three go
  Add(2);
  Add(1);
  EXPECT_EQ(observer_.counts().dropped, 4);
  for (int i = 0; i < 100'000; ++i) Add(9);  // the memory stays what it is
  EXPECT_EQ(observer_.counts().dropped, 4 + 900'000);
}

TEST_F(SpanExporterTest, WhatMayBeSentAgainIsAsOftenAsTheOptionsSay) {
  collector_.AnswerWith({.outcome = ExportResult::Outcome::kTryAgain, .why = "busy"});
  Start({.max_batch = 2, .attempts = 3, .first_wait = kSecond});
  Add(2);
  collector_.AwaitAttempts(1);
  Pass(kSecond);
  collector_.AwaitAttempts(2);
  Pass(2 * kSecond);
  observer_.AwaitEnded(2);
  EXPECT_EQ(collector_.attempts(), 3);
  EXPECT_EQ(observer_.counts(), (Counts{0, 0, 2, 3}));
}

TEST_F(SpanExporterTest, ACollectorThatComesBackGetsTheSameSpans) {
  collector_.AnswerWith({.outcome = ExportResult::Outcome::kTryAgain, .why = "gone"});
  Start({.max_batch = 2});
  Add(2);
  collector_.AwaitAttempts(1);
  collector_.AnswerWith({});
  Pass(kSecond);
  observer_.AwaitEnded(2);
  EXPECT_EQ(observer_.counts(), (Counts{2, 0, 0, 1}));
  EXPECT_THAT(collector_.batches(), Each(2));
}

TEST_F(SpanExporterTest, TheCollectorsOwnTimeIsWaitedFor) {
  collector_.AnswerWith(
      {.outcome = ExportResult::Outcome::kTryAgain, .retry_after = 20 * kSecond, .why = "busy"});
  Start({.max_batch = 1, .longest_wait = 5 * kSecond});
  Add(1);
  collector_.AwaitAttempts(1);
  Pass(19 * kSecond);
  clock_.AwaitWaiters(1);
  EXPECT_EQ(collector_.attempts(), 1);
  Pass(kSecond);
  collector_.AwaitAttempts(2);
}

TEST_F(SpanExporterTest, WhatIsRefusedIsNotSentAgain) {
  collector_.AnswerWith({.outcome = ExportResult::Outcome::kRefused, .why = "malformed"});
  Start({.max_batch = 2});
  Add(2);
  observer_.AwaitEnded(2);
  EXPECT_EQ(collector_.attempts(), 1);
  EXPECT_EQ(observer_.counts(), (Counts{0, 0, 2, 1}));
}

TEST_F(SpanExporterTest, SpansThatACollectorTookNotAreCountedApart) {
  collector_.AnswerWith({.rejected = 3});
  Start({.max_batch = 5});
  Add(5);
  observer_.AwaitEnded(5);
  EXPECT_EQ(observer_.counts(), (Counts{2, 0, 3, 0}));
}

TEST_F(SpanExporterTest, AStopSendsWhatWaits) {
  Start({.max_batch = 4, .delay = 3600 * kSecond});
  Add(3);
  exporter_->Stop(clock_.Now() + kSecond);
  EXPECT_EQ(observer_.counts(), (Counts{3, 0, 0, 0}));
  Add(2);
  EXPECT_EQ(observer_.counts().dropped, 2) << "it takes no more";
}

TEST_F(SpanExporterTest, AStopTriesOnceWhereTheCollectorIsGone) {
  collector_.AnswerWith({.outcome = ExportResult::Outcome::kTryAgain, .why = "gone"});
  Start({.max_batch = 2, .delay = 3600 * kSecond});
  Add(5);
  exporter_->Stop(clock_.Now() + 3600 * kSecond);
  EXPECT_THAT(collector_.batches(), ElementsAre(2, 2, 1));
  EXPECT_EQ(observer_.counts(), (Counts{0, 0, 5, 3}));
}

TEST_F(SpanExporterTest, AStopWaitsForNoCollectorThatHangs) {
  collector_.Hang();
  Start({.max_batch = 2});
  Add(3);
  collector_.AwaitAttempts(1);
  exporter_->Stop(clock_.Now());  // it is over at once
  EXPECT_EQ(observer_.counts(), (Counts{0, 1, 2, 1}));
}

}  // namespace
}  // namespace fovea
