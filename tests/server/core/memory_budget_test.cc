#include "server/core/memory_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

using Hold = MemoryBudget::Hold;

class MemoryBudgetTest : public testing::Test {
 protected:
  // Waits for `bytes` on a thread of its own, which is in its turn when this returns.
  std::thread Await(int64_t bytes, Nanos until, std::optional<Hold>* hold,
                    MemoryBudget::Rank rank = {}, Cancellation* cancellation = nullptr) {
    std::thread thread([=, this] { *hold = budget_.AwaitHold(bytes, until, rank, cancellation); });
    clock_.AwaitWaiters(++waiters_);
    return thread;
  }

  FakeClock clock_;
  MemoryBudget budget_{100, clock_};
  int waiters_ = 0;
};

TEST_F(MemoryBudgetTest, HoldsUpToItsCapacityAndTakesBytesBack) {
  {
    std::optional<Hold> first = budget_.TryHold(60);
    ASSERT_TRUE(first.has_value());
    EXPECT_FALSE(budget_.TryHold(41).has_value());
    const Hold moved = *std::move(first);
    const std::optional<Hold> second = budget_.TryHold(40);
    EXPECT_TRUE(second.has_value());
    EXPECT_EQ(budget_.held(), 100);
  }
  EXPECT_EQ(budget_.held(), 0);
}

TEST_F(MemoryBudgetTest, GrowsAHoldWhereThereIsRoom) {
  {
    std::optional<Hold> hold = budget_.TryHold(10);
    EXPECT_TRUE(hold->TryGrow(80));
    EXPECT_EQ(hold->bytes(), 90);
    EXPECT_FALSE(hold->TryGrow(11));
    EXPECT_EQ(hold->bytes(), 90);
    EXPECT_EQ(budget_.held(), 90);
  }
  EXPECT_EQ(budget_.held(), 0);
}

TEST_F(MemoryBudgetTest, ServesTheUrgentBeforeThoseWhoCameEarlier) {
  std::optional<Hold> first = budget_.TryHold(100);
  std::optional<Hold> low, late, urgent;
  std::thread threads[] = {Await(100, kNever, &low, {.priority = 1, .order = 1}),
                           Await(100, kNever, &late, {.order = 20}),
                           Await(100, kNever, &urgent, {.order = 10})};
  EXPECT_TRUE(budget_.AwaitHold(0, kNever, {.priority = 9}).has_value()) << "nothing needs no turn";
  first.reset();
  threads[2].join();
  EXPECT_TRUE(urgent.has_value());
  urgent.reset();
  threads[1].join();
  late.reset();
  threads[0].join();
  EXPECT_TRUE(low.has_value());
}

TEST_F(MemoryBudgetTest, ServesThoseWhoWaitInTheirOrder) {
  std::optional<Hold> first = budget_.TryHold(50);
  std::optional<Hold> large, small;
  std::thread waits_for_much = Await(90, kNever, &large);
  std::thread waits_for_little = Await(20, kNever, &small);
  EXPECT_FALSE(budget_.TryHold(1).has_value());  // nobody passes
  EXPECT_EQ(budget_.held(), 50);
  first.reset();
  waits_for_much.join();
  EXPECT_EQ(large->bytes(), 90);
  EXPECT_EQ(budget_.held(), 90);
  large.reset();
  waits_for_little.join();
  EXPECT_EQ(small->bytes(), 20);
}

TEST_F(MemoryBudgetTest, LetsTheNextOnePassWhenSomebodyGivesUp) {
  const std::optional<Hold> first = budget_.TryHold(50);
  std::optional<Hold> large, small;
  std::thread waits_for_much = Await(90, clock_.Now() + 10, &large);
  std::thread waits_for_little = Await(20, kNever, &small);
  clock_.Advance(10);
  waits_for_much.join();
  waits_for_little.join();
  EXPECT_FALSE(large.has_value());
  EXPECT_EQ(small->bytes(), 20);
  EXPECT_EQ(budget_.held(), 70);
}

TEST_F(MemoryBudgetTest, WhoeverIsCancelledLeavesTheLineAtOnce) {
  std::optional<Hold> first = budget_.TryHold(50), large, small;
  Cancellation cancellation;
  std::thread waits_for_much = Await(90, kNever, &large, {}, &cancellation);
  std::thread waits_for_little = Await(20, kNever, &small);
  cancellation.Cancel();
  waits_for_much.join();
  waits_for_little.join();
  EXPECT_FALSE(large.has_value());
  EXPECT_EQ(small->bytes(), 20);
  EXPECT_EQ(budget_.held(), 70) << "nothing was given back meanwhile";
  EXPECT_FALSE(budget_.AwaitHold(90, kNever, {}, &cancellation).has_value())
      << "it was cancelled before it waited";
}

TEST_F(MemoryBudgetTest, EndsTheWaitsOfThoseWhoWaitAndOfThoseWhoWould) {
  std::optional<Hold> first = budget_.TryHold(50), waited;
  std::thread waits = Await(90, kNever, &waited);
  budget_.EndWaits();
  waits.join();
  EXPECT_FALSE(waited.has_value());
  EXPECT_FALSE(budget_.AwaitHold(90, kNever, {}).has_value());
  EXPECT_TRUE(budget_.AwaitHold(50, kNever, {}).has_value()) << "which is to be had now";
  EXPECT_EQ(budget_.held(), 50);
}

TEST(MemoryBudgetStressTest, IsNeverOverdrawnAndLosesNothing) {
  MemoryBudget budget(100, SteadyClock());
  std::atomic<int64_t> held{0}, taken{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2'000; ++i) {
        const int64_t bytes = 1 + (i * 7 + thread * 31) % 100;
        std::optional<Hold> hold =
            i % 3 == 0 ? budget.TryHold(bytes) : budget.AwaitHold(bytes, kNever, {});
        if (!hold) continue;
        EXPECT_LE(held += bytes, 100);
        ++taken;
        held -= bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.held(), 0);
  EXPECT_GE(taken, 4 * 1'333);
}

}  // namespace
}  // namespace fovea
