#include "server/core/cancellation.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace fovea {
namespace {

TEST(CancellationTest, IsSetOnceAndStaysSet) {
  Cancellation cancellation;
  EXPECT_FALSE(cancellation.Cancelled());
  cancellation.Cancel();
  cancellation.Cancel();
  EXPECT_TRUE(cancellation.Cancelled());
}

TEST(CancellationTest, CallsBackOnce) {
  Cancellation cancellation;
  int calls = 0;
  cancellation.OnCancel([&] {
    ++calls;
    EXPECT_TRUE(cancellation.Cancelled());
    cancellation.Cancel();  // no lock is held
  });
  EXPECT_EQ(calls, 0);
  cancellation.Cancel();
  cancellation.Cancel();
  EXPECT_EQ(calls, 1);
}

TEST(CancellationTest, CallsBackAtOnceWhereItIsAlreadyCancelled) {
  Cancellation cancellation;
  cancellation.Cancel();
  int calls = 0;
  cancellation.OnCancel([&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(CancellationTest, ForgetsACallback) {
  Cancellation cancellation;
  int first = 0;
  int second = 0;
  cancellation.OnCancel([&] { ++first; });
  cancellation.OnCancel([&] { ++second; });
  cancellation.OnCancel(nullptr);
  cancellation.Cancel();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 0);
}

TEST(CancellationTest, WakesEveryListenerBesideTheCallback) {
  Cancellation cancellation;
  int callbacks = 0, first = 0, second = 0, gone = 0;
  cancellation.OnCancel([&] { ++callbacks; });
  {
    const Cancellation::Listener leaves(cancellation, [&] { ++gone; });
  }
  const Cancellation::Listener one(cancellation, [&] { ++first; });
  const Cancellation::Listener other(cancellation, [&] { ++second; });
  cancellation.OnCancel([&] { ++callbacks; });
  cancellation.Cancel();
  cancellation.Cancel();
  EXPECT_EQ(callbacks, 1);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(gone, 0);
}

TEST(CancellationTest, CallsBackOnceHoweverCancelAndOnCancelRace) {
  for (int round = 0; round < 200; ++round) {
    Cancellation cancellation;
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    threads.emplace_back([&] { cancellation.OnCancel([&] { ++calls; }); });
    threads.emplace_back([&] { cancellation.Cancel(); });
    threads.emplace_back([&] { cancellation.Cancel(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(calls, 1);
  }
}

}  // namespace
}  // namespace fovea
