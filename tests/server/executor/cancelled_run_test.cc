// Batches for whose requests nobody waits any more.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "base/status.h"
#include "server/core/testing/fake_clock.h"
#include "tests/server/executor/batch_executor_testing.h"

namespace fovea {
namespace {

// A model whose callers go while it runs: in the middle of its 43rd block.
class CancelledRunTest : public BatchExecutorTest {
 protected:
  static constexpr int kLast = 42;

  void Load() {
    BatchExecutorTest::Load(std::make_unique<SummingModel>(), 8, clock_);
    model_->on_block_ = [this](int block) {
      clock_.Advance(kMillisecond);
      if (block != kLast) return;
      for (const CancellationPtr& caller : going_) caller->Cancel();
    };
  }
  CancellationPtr Going() {
    going_.push_back(std::make_shared<Cancellation>());
    return going_.back();
  }

  FakeClock clock_;
  std::vector<CancellationPtr> going_;
};

TEST_F(CancelledRunTest, Row34StopsAtTheNextBlockWhenTheLastCallerGoes) {
  Load();
  Outcome before, one, two, after;
  Run(MakeTask({3, 4}, before));
  model_->blocks_ = 0;
  EXPECT_EQ(Run(MakeTask({1}, one, Going()), MakeTask({2}, two, Going())), RunOutcome::kStopped);
  EXPECT_EQ(model_->blocks_, kLast + 1);
  EXPECT_EQ(ReasonOf(one.result->status()), "request.cancelled");
  EXPECT_EQ(ReasonOf(two.result->status()), "request.cancelled");
  EXPECT_EQ(one.calls + two.calls, 2);
  EXPECT_EQ(observer_.batches, 1) << "the stopped one counts in no metric of batches";
  EXPECT_EQ(observer_.wasted, (kLast + 1) * kMillisecond);
  EXPECT_EQ(observer_.taken, (kBlocks + kLast + 1) * kMillisecond) << "what was taken counts all";
  // The lane serves the next one bit for bit.
  EXPECT_EQ(Run(MakeTask({3, 4}, after)), RunOutcome::kWhole);
  EXPECT_EQ((*after.result)->outputs[0].data, (*before.result)->outputs[0].data);
}

TEST_F(CancelledRunTest, RunsOnForOneWhoWaits) {
  Load();
  Outcome gone, stays;
  EXPECT_EQ(Run(MakeTask({1, 1, 1}, gone, Going()), MakeTask({2}, stays)), RunOutcome::kWhole);
  EXPECT_EQ(model_->blocks_, kBlocks);
  EXPECT_EQ(stays.value(), 2 * kNumbers);
  EXPECT_EQ(observer_.wasted, kBlocks * kMillisecond * 3 / 4);
}

TEST_F(CancelledRunTest, StopsWhereDeadlinesHavePassed) {
  Load();
  const auto stays = [] { return std::make_shared<Cancellation>(); };
  Outcome late, gone;
  const Nanos deadline = clock_.Now() + 60 * kMillisecond;
  EXPECT_EQ(Run(MakeTask({1}, late, stays(), deadline), MakeTask({2}, gone, Going())),
            RunOutcome::kStopped);
  EXPECT_EQ(model_->blocks_, 60);
  EXPECT_EQ(ReasonOf(late.result->status()), "request.deadline_passed");
  EXPECT_EQ(late.result->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(gone.result->status().code(), absl::StatusCode::kCancelled);
}

TEST_F(CancelledRunTest, NothingIsWastedWhereEverybodyWaits) {
  Load();
  Outcome one;
  Run(MakeTask({1}, one, std::make_shared<Cancellation>(), clock_.Now() + kSecond));
  EXPECT_EQ(one.value(), kNumbers);
  EXPECT_EQ(observer_.wasted, 0);
}

}  // namespace
}  // namespace fovea
