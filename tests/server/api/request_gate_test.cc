#include "server/api/request_gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

class RequestGateTest : public ::testing::Test {
 protected:
  RequestGate::Pass Enter() {
    return gate_.TryEnter(std::make_shared<Cancellation>(), clock_.Now());
  }

  FakeClock clock_;
  RequestGate gate_;
};

TEST_F(RequestGateTest, WhoComesAfterTheCloseIsRefused) {
  EXPECT_TRUE(Enter());
  gate_.Close();
  EXPECT_FALSE(Enter());
}

TEST_F(RequestGateTest, AWaitForAnswersEndsAtItsCap) {
  const RequestGate::Pass inside = Enter();
  const Nanos start = clock_.Now();
  int unanswered = 0;
  std::thread waiting([&] { unanswered = gate_.AwaitAnswers(clock_, start + 60 * kSecond); });
  clock_.AwaitWaiters(1);
  EXPECT_EQ(gate_.AnswerDeadline(start + 60 * kSecond), start + 60 * kSecond);
  gate_.CapAnswerDeadline(start + 2 * kSecond);
  gate_.CapAnswerDeadline(start + 9 * kSecond);  // which allows no more
  EXPECT_EQ(gate_.AnswerDeadline(start + 60 * kSecond), start + 2 * kSecond);
  EXPECT_EQ(gate_.AnswerDeadline(start + kSecond), start + kSecond);
  clock_.Advance(2 * kSecond);
  waiting.join();
  EXPECT_EQ(unanswered, 1);
  EXPECT_EQ(gate_.AwaitAnswers(clock_, start + 60 * kSecond), 1) << "also one that comes later";
}

// A message may be on its way to a server to which none has come for long.
TEST_F(RequestGateTest, QuietIsWaitedForThoughNobodyHasCome) {
  EXPECT_TRUE(Enter());
  clock_.Advance(kSecond);
  const Nanos start = clock_.Now();
  std::thread waiting([&] { gate_.AwaitQuiet(clock_, 100 * kMillisecond, kNever); });
  clock_.AwaitWaiters(1);
  EXPECT_EQ(clock_.NextWake(), start + 100 * kMillisecond);
  clock_.Advance(100 * kMillisecond);
  waiting.join();
}

TEST_F(RequestGateTest, WhoIsRefusedProlongsTheWaitForQuiet) {
  const Nanos start = clock_.Now();
  gate_.Close();
  EXPECT_FALSE(Enter());
  std::thread waiting([&] { gate_.AwaitQuiet(clock_, 100 * kMillisecond, kNever); });
  clock_.AwaitWaiters(1);
  clock_.Advance(80 * kMillisecond);
  EXPECT_FALSE(Enter());
  clock_.Advance(20 * kMillisecond);
  clock_.AwaitWaiters(1);
  EXPECT_EQ(clock_.NextWake(), start + 180 * kMillisecond);
  clock_.Advance(80 * kMillisecond);
  waiting.join();
}

TEST_F(RequestGateTest, TheWaitForQuietEndsThoughMoreKeepComing) {
  const Nanos until = clock_.Now() + 150 * kMillisecond;
  std::thread waiting([&] {
    EXPECT_TRUE(Enter());
    gate_.AwaitQuiet(clock_, 100 * kMillisecond, until);
  });
  clock_.AwaitWaiters(1);
  clock_.Advance(90 * kMillisecond);
  EXPECT_TRUE(Enter());
  clock_.Advance(10 * kMillisecond);
  clock_.AwaitWaiters(1);
  EXPECT_EQ(clock_.NextWake(), until);
  clock_.Advance(50 * kMillisecond);
  waiting.join();
}

}  // namespace
}  // namespace fovea
