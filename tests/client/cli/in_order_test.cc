#include "client/cpp/cli/in_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>

namespace fovea::client {
namespace {

// Gives 0, 1, ... count-1.
std::function<std::optional<int>()> Numbers(int count, int& given) {
  return [count, &given]() -> std::optional<int> {
    if (given == count) return std::nullopt;
    return given++;
  };
}

TEST(InOrder, HandsResultsOnInTheOrderOfTheirItems) {
  int given = 0;
  std::vector<int> results;
  // Of each four, the first is done last.
  std::array<std::latch, 4> others = {std::latch(3), std::latch(3), std::latch(3), std::latch(3)};
  InOrder<int, int>(
      4, Numbers(16, given),
      [&](int item) {
        item % 4 == 0 ? others[item / 4].wait() : others[item / 4].count_down();
        return 10 * item;
      },
      [&](int result) { results.push_back(result); });
  ASSERT_EQ(results.size(), 16u);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(results[i], 10 * i);
}

TEST(InOrder, HandsAResultOnBeforeTheNextItemComes) {
  int given = 0;
  std::atomic<int> done = 0;
  InOrder<int, int>(
      2,
      [&]() -> std::optional<int> {
        done.wait(given - 1);  // returns at once where all of them are done
        return given < 5 ? std::optional(given++) : std::nullopt;
      },
      [](int item) { return item; },
      [&](int) {
        ++done;
        done.notify_all();
      });
  EXPECT_EQ(done, 5);
}

TEST(InOrder, TakesNoMoreItemsWhileManyResultsWaitForOne) {
  constexpr int kHeld = 8 * 3;
  std::latch others(kHeld - 1);
  std::atomic<bool> first_done = false;
  int given = 0;
  InOrder<int, int>(
      3, Numbers(100, given),
      [&](int item) {
        if (item == 0) {
          others.wait();  // for all that may be taken before it is done
          first_done = true;
        } else if (item < kHeld) {
          others.count_down();
        } else {
          EXPECT_TRUE(first_done) << item;
        }
        return item;
      },
      [](int) {});
  EXPECT_EQ(given, 100);
}

TEST(InOrder, WorksOnNoMoreItemsAtATimeThanItHasWorkers) {
  int given = 0;
  std::atomic<int> running = 0;
  InOrder<int, int>(
      3, Numbers(50, given),
      [&](int item) {
        EXPECT_LE(++running, 3);
        std::this_thread::yield();
        --running;
        return item;
      },
      [](int) {});
}

TEST(InOrder, OfNothingIsNothing) {
  int given = 0;
  InOrder<int, int>(
      3, Numbers(0, given), [](int item) { return item; }, [](int) { FAIL(); });
}

}  // namespace
}  // namespace fovea::client
