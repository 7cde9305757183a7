#include "server/lifecycle/server_phase.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace fovea {
namespace {

using ::testing::ElementsAre;

// Whether a thread of this process waits for something: what the system calls sleeping.
bool Sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;  // a thread that nobody named has its program's name, one word
  file >> number >> name >> state;
  return state == "S";
}

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
  std::atomic<bool> announced = false, stopped = false;
  std::atomic<pid_t> stopping = 0;
  std::thread stop;
  std::vector<Phase> entered;
  ServerPhase phase([&](Phase to) {
    if (to == Phase::kServing) {
      stop = std::thread([&] {
        stopping = gettid();
        phase.Advance(Phase::kDraining);
        stopped = true;
      });
      while (stopping == 0 || !(stopped || Sleeps(stopping))) std::this_thread::yield();
      announced = true;
    }
    EXPECT_TRUE(announced);
    if (announced) entered.push_back(to);
  });
  phase.Advance(Phase::kServing);
  stop.join();
  EXPECT_THAT(entered, ElementsAre(Phase::kServing, Phase::kDraining));
}

TEST(ServerPhaseDeathTest, NothingStopsWithoutDraining) {
  EXPECT_DEATH(ServerPhase([](Phase) {}).Advance(Phase::kStopped), "check failed");
}

}  // namespace
}  // namespace fovea
