#include "server/core/clock.h"

#include <gtest/gtest.h>
#include <time.h>

#include <thread>
#include <vector>

#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

// What a thread that waits is made of.
struct Waiting {
  Mutex mutex;
  CondVar condition;
  bool told ABSL_GUARDED_BY(mutex) = false;

  // Waits until it is told or `until` has come; whether it was told.
  bool Wait(Clock& clock, Nanos until) {
    MutexLock lock(mutex);
    while (!told && clock.Now() < until) clock.WaitUntil(condition, mutex, until);
    return told;
  }
  void Tell() {
    {
      MutexLock lock(mutex);
      told = true;
    }
    condition.NotifyOne();
  }
};

TEST(SteadyClockTest, DoesNotGoBack) {
  Nanos last = SteadyClock().Now();
  for (int i = 0; i < 10'000; ++i) {
    const Nanos now = SteadyClock().Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

// docs/faults.md, row 46: a jump of the wall clock moves nothing.
TEST(SteadyClockTest, IsTheMonotonicClock) {
  const auto monotonic = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * kSecond + time.tv_nsec;
  };
  const Nanos before = monotonic();
  const Nanos now = SteadyClock().Now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, monotonic());
}

TEST(SteadyClockTest, WaitsUntilTheTimeHasCome) {
  Waiting waiting;
  const Nanos until = SteadyClock().Now() + 5 * kMillisecond;
  EXPECT_FALSE(waiting.Wait(SteadyClock(), until));
  EXPECT_GE(SteadyClock().Now(), until);
}

TEST(SteadyClockTest, DoesNotWaitForATimeThatHasPassed) {
  Waiting waiting;
  EXPECT_FALSE(waiting.Wait(SteadyClock(), SteadyClock().Now() - kSecond));
}

TEST(SteadyClockTest, IsWokenByANotificationHoweverFarTheTimeIs) {
  for (Nanos until : {kNever, SteadyClock().Now() + 1'000 * kSecond}) {
    Waiting waiting;
    std::thread teller([&] { waiting.Tell(); });
    EXPECT_TRUE(waiting.Wait(SteadyClock(), until));
    teller.join();
  }
}

TEST(FakeClockTest, StandsStillUntilItIsMoved) {
  FakeClock clock(100);
  EXPECT_EQ(clock.Now(), 100);
  EXPECT_EQ(clock.Now(), 100);
  clock.Advance(7);
  EXPECT_EQ(clock.Now(), 107);
  EXPECT_DEATH(clock.Advance(-1), "check failed");
}

TEST(FakeClockTest, WakesExactlyThoseWhoseTimeHasCome) {
  FakeClock clock(0);
  Waiting sooner, later;
  bool sooner_told = true;
  bool later_told = false;
  std::thread first([&] { sooner_told = sooner.Wait(clock, 10); });
  std::thread second([&] { later_told = later.Wait(clock, 20); });
  clock.AwaitWaiters(2);
  EXPECT_EQ(clock.NextWake(), 10);
  clock.Advance(9);
  EXPECT_EQ(clock.NextWake(), 10);
  clock.Advance(1);  // returns when the first has left
  EXPECT_EQ(clock.NextWake(), 20);
  first.join();
  EXPECT_FALSE(sooner_told);
  later.Tell();
  second.join();
  EXPECT_TRUE(later_told);
  EXPECT_EQ(clock.NextWake(), kNever);
}

TEST(FakeClockTest, LosesNoWakeUpHoweverWaitAndAdvanceRace) {
  for (int round = 0; round < 500; ++round) {
    FakeClock clock(0);
    std::vector<Waiting> waiting(3);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < waiting.size(); ++i) {
      threads.emplace_back([&, i] { EXPECT_FALSE(waiting[i].Wait(clock, 10 + i)); });
    }
    for (int step = 0; step < 15; ++step) clock.Advance(1);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace fovea
