#include "server/lifecycle/server_phase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "server/core/testing/notification.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ServerPhaseTest, GoesFromStartingToStopped) {
  std::vector<Phase> entered;
  ServerPhase phase([&](Phase to) { entered.push_back(to); });
  EXPECT_EQ(phase.now(), Phase::kStarting);
  for (const Phase to : {Phase::kServing, Phase::kDraining, Phase::kStopped}) {
    EXPECT_TRUE(phase.Advance(to));
    EXPECT_EQ(phase.now(), to);
    EXPECT_FALSE(phase.Advance(to)) << "a second time is nothing";
  }
  EXPECT_THAT(entered, ElementsAre(Phase::kServing, Phase::kDraining, Phase::kStopped));
}

// docs/faults.md, row 44: SIGTERM while loading.
TEST(ServerPhaseTest, ModelsThatAreReadyAfterTheStopBeganDoNotMakeTheServerServe) {
  std::vector<Phase> entered;
  ServerPhase phase([&](Phase to) { entered.push_back(to); });
  EXPECT_TRUE(phase.Advance(Phase::kDraining));
  EXPECT_FALSE(phase.Advance(Phase::kServing));
  EXPECT_EQ(phase.now(), Phase::kDraining);
  EXPECT_THAT(entered, ElementsAre(Phase::kDraining));
}

TEST(ServerPhaseTest, AStopThatComesWhileServingIsAnnouncedIsHeardAfterIt) {
  std::vector<Phase> entered;
  Notification telling, go_on;
  ServerPhase phase([&](Phase to) {
    if (to == Phase::kServing) {
      telling.Notify();
      go_on.Wait();
    }
    entered.push_back(to);
  });
  std::thread loading([&] { phase.Advance(Phase::kServing); });
  telling.Wait();
  std::thread stop([&] { phase.Advance(Phase::kDraining); });
  std::this_thread::yield();
  EXPECT_THAT(entered, IsEmpty());
  go_on.Notify();
  loading.join();
  stop.join();
  EXPECT_THAT(entered, ElementsAre(Phase::kServing, Phase::kDraining));
}

TEST(ServerPhaseDeathTest, NothingStopsWithoutDraining) {
  EXPECT_DEATH(ServerPhase([](Phase) {}).Advance(Phase::kStopped), "check failed");
}

}  // namespace
}  // namespace fovea
