#include "kernels/barrier_waits.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace fovea::kernels {
namespace {

constexpr double kError = 0.05;  // larger than a sample's error on eight cores

// Feeds samples of the cores that others use, and checks the decision after each.
TEST(BarrierWaitPolicy, SleepsFromTheFirstBusySampleUntilOthersHaveBeenQuiet) {
  BarrierWaitPolicy policy(/*cores=*/2, /*threads=*/2);
  EXPECT_FALSE(policy.ShouldSleep(0.0));
  EXPECT_FALSE(policy.ShouldSleep(BarrierWaitPolicy::kBusy - 0.01));
  EXPECT_TRUE(policy.ShouldSleep(BarrierWaitPolicy::kBusy + kError));
  for (int i = 1; i < BarrierWaitPolicy::kQuietSamples; ++i) {
    EXPECT_TRUE(policy.ShouldSleep(0.0)) << i;
  }
  // Neither busy nor quiet: the quiet samples are counted from the beginning.
  EXPECT_TRUE(policy.ShouldSleep(BarrierWaitPolicy::kQuiet + kError));
  for (int i = 1; i < BarrierWaitPolicy::kQuietSamples; ++i) {
    EXPECT_TRUE(policy.ShouldSleep(0.0)) << i;
  }
  EXPECT_FALSE(policy.ShouldSleep(0.0));
  EXPECT_TRUE(policy.ShouldSleep(1.5));
}

TEST(BarrierWaitPolicy, IsContendedWhereThreadsHaveLessThanACoreEach) {
  struct {
    int cores, threads;
    double others;
    bool contended;
  } const cases[] = {
      {8, 4, 4.0, false},   {8, 4, 4.0 + BarrierWaitPolicy::kBusy + kError, true},
      {2, 4, 0.0, false},   {2, 4, BarrierWaitPolicy::kBusy + kError, true},
      {2, 1, 1.0, false},   {2, 1, 1.4, true},
      {64, 64, 0.3, false},  // as far as a sample of so many cores may be off
      {64, 64, 1.0, true},
  };
  for (const auto& [cores, threads, others, contended] : cases) {
    EXPECT_EQ(BarrierWaitPolicy(cores, threads).IsContended(others), contended)
        << others << " of " << cores << " beside " << threads;
    EXPECT_EQ(BarrierWaitPolicy(cores, threads).ShouldSleep(others), contended);
  }
}

// CPU time that the process uses while its helper waits between parallel regions: nearly none if it
// sleeps; if it spins, all that other processes leave it.
double ShareOfWaitingThatIsSpent() {
  constexpr int kRegions = 30;
  constexpr auto kBetween = std::chrono::milliseconds(2);
  const auto used = [] {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  double share = 0;
  std::thread([&] {
    const double before = used();
    for (int i = 0; i < kRegions; ++i) {
#pragma omp parallel num_threads(2)
      asm volatile("");  // the compiler drops an empty region
      std::this_thread::sleep_for(kBetween);
    }
    share = (used() - before) / (kRegions * std::chrono::duration<double>(kBetween).count());
  }).join();
  return share;
}

// True if threads spin by default here, and have a core each to do so.
bool SpinsHere() { return std::getenv("OMP_WAIT_POLICY") == nullptr && omp_get_num_procs() >= 2; }

TEST(SleepingBarriers, LetHelpersSleepWhileTheyAreThere) {
  double asleep = 1;
  std::thread([&] {
    const SleepingBarriers sleeping;
    asleep = ShareOfWaitingThatIsSpent();
  }).join();
  EXPECT_LT(asleep, 0.1);
  // kernels_spinning_test runs this without the variable.
  if (SpinsHere()) EXPECT_GT(ShareOfWaitingThatIsSpent(), 0.2);
}

TEST(AdaptiveBarrierWaits, FollowWhatOthersUse) {
  std::atomic<double> others = 0;
  std::mutex mutex;
  std::vector<std::pair<bool, double>> changes;
  const auto heard = [&] {
    const std::lock_guard lock(mutex);
    return changes;
  };
  const auto wait_for = [&](size_t number) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (heard().size() < number && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return heard().size() >= number;
  };
  const AdaptiveBarrierWaits waits(
      omp_get_num_procs(),
      [&](bool sleep, double cores) {
        const std::lock_guard lock(mutex);
        changes.emplace_back(sleep, cores);
      },
      [&]() -> std::optional<double> { return others; });
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) {  // it decides instead
    others = 2;
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    EXPECT_TRUE(heard().empty());
    return;
  }
  if (SpinsHere()) EXPECT_GT(ShareOfWaitingThatIsSpent(), 0.2);
  others = 2;
  ASSERT_TRUE(wait_for(1));
  EXPECT_EQ(heard()[0], std::pair(true, 2.0));
  EXPECT_LT(ShareOfWaitingThatIsSpent(), 0.1);
  others = 0;
  ASSERT_TRUE(wait_for(2));
  EXPECT_EQ(heard()[1], std::pair(false, 0.0));
  if (SpinsHere()) EXPECT_GT(ShareOfWaitingThatIsSpent(), 0.2);
}

}  // namespace
}  // namespace fovea::kernels
