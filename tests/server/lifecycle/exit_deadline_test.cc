#include "server/lifecycle/exit_deadline.h"

#include <gtest/gtest.h>

#include <atomic>

#include "server/core/testing/fake_clock.h"
#include "server/core/testing/notification.h"

namespace fovea {
namespace {

class ExitDeadlineTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  Notification exited_;
  std::atomic<int> code_ = -1;
  ExitDeadline deadline_{clock_, [this](int code) {
                           code_ = code;
                           exited_.Notify();
                         }};
};

TEST_F(ExitDeadlineTest, EndsTheProcessWithItsCodeWhenTheTimeHasCome) {
  deadline_.Set(clock_.Now() + 5 * kSecond, 3, "it hung");
  clock_.AwaitWaiters(1);
  clock_.Advance(5 * kSecond - 1);
  EXPECT_EQ(code_, -1);
  clock_.Advance(1);
  exited_.Wait();
  EXPECT_EQ(code_, 3);
}

TEST_F(ExitDeadlineTest, ALaterOneReplacesTheFirst) {
  deadline_.Set(clock_.Now() + kSecond, 1, "the drain");
  deadline_.Set(clock_.Now() + 9 * kSecond, 0, "the rest");
  clock_.Advance(8 * kSecond);
  clock_.AwaitWaiters(1);
  EXPECT_EQ(code_, -1);
  clock_.Advance(kSecond);
  exited_.Wait();
  EXPECT_EQ(code_, 0);
}

TEST_F(ExitDeadlineTest, OneThatIsToComeNoLaterPutsNothingOff) {
  deadline_.Set(clock_.Now() + 9 * kSecond, 1, "the drain");
  deadline_.SetNoLater(clock_.Now() + 5 * kSecond, 2, "a lost device");
  deadline_.SetNoLater(clock_.Now() + 8 * kSecond, 0, "the rest");
  clock_.AwaitWaiters(1);
  clock_.Advance(5 * kSecond - 1);
  EXPECT_EQ(code_, -1);
  clock_.Advance(1);
  exited_.Wait();
  EXPECT_EQ(code_, 2);
}

TEST(ExitDeadlineOffTest, IsOffOnceTheServerHasEndedByItself) {
  FakeClock clock;
  int exits = 0;
  {
    ExitDeadline deadline(clock, [&](int) { ++exits; });
    deadline.Set(clock.Now() + kSecond, 1, "it hung");
  }
  clock.Advance(kSecond);
  EXPECT_EQ(exits, 0);
}

}  // namespace
}  // namespace fovea
