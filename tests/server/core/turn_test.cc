#include "server/core/turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace fovea {
namespace {

bool Never() { return false; }

TEST(Turn, OneHasItAtATime) {
  Turn turn;
  int having = 0;  // whoever has the turn writes it: ThreadSanitizer sees a second one
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        const auto taken = turn.Await(Never, SteadyClock());
        EXPECT_EQ(++having, 1);
        --having;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Turn, WhoGivesUpWaitsForNobody) {
  Turn turn;
  auto taken = turn.Await(Never, SteadyClock());
  std::atomic<bool> gives_up = false;
  std::thread other([&] {
    EXPECT_EQ(turn.Await(
                  [&] {
                    // Asked once more after it has said no: it waits, and asks again.
                    return gives_up.exchange(true);
                  },
                  SteadyClock()),
              nullptr);
  });
  other.join();
  EXPECT_TRUE(gives_up);
  taken.reset();
  EXPECT_NE(turn.Await([] { return true; }, SteadyClock()), nullptr) << "nobody has it";
}

}  // namespace
}  // namespace fovea
