#include "server/lifecycle/server_phase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <vector>

#include "server/core/testing/watched_thread.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;

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
  std::atomic<bool> announced = false;
  std::optional<WatchedThread> stop;
  std::vector<Phase> entered;
  ServerPhase phase([&](Phase to) {
    if (to == Phase::kServing) {
      stop.emplace([&] { phase.Advance(Phase::kDraining); });
      EXPECT_TRUE(stop->WaitsBeforeItEnds());
      announced = true;
    }
    EXPECT_TRUE(announced);
    if (announced) entered.push_back(to);
  });
  phase.Advance(Phase::kServing);
  stop.reset();
  EXPECT_THAT(entered, ElementsAre(Phase::kServing, Phase::kDraining));
}

TEST(ServerPhaseDeathTest, NothingStopsWithoutDraining) {
  EXPECT_DEATH(ServerPhase([](Phase) {}).Advance(Phase::kStopped), "check failed");
}

}  // namespace
}  // namespace fovea
