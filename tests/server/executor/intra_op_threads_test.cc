#include "server/executor/intra_op_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

namespace fovea {
namespace {

int ThreadsOfThisProcess() {
  using std::filesystem::directory_iterator;
  return static_cast<int>(std::distance(directory_iterator("/proc/self/task"), directory_iterator()));
}

// Threads that end are still seen for a moment.
bool ComesDownTo(int threads) {
  for (int i = 0; i < 500 && ThreadsOfThisProcess() > threads; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return ThreadsOfThisProcess() == threads;
}

void UseHelpers() {
  at::parallel_for(0, 1 << 20, 1, [](int64_t, int64_t) {});
}

TEST(IntraOpThreads, AreKeptWhileTheCoresSufficeForAll) {
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "one core";
  const IntraOpThreads threads(/*per_instance=*/2, /*instances=*/1);
  std::thread instance([&] {
    threads.Enter();
    UseHelpers();
    const int with_helper = ThreadsOfThisProcess();
    threads.Idle();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(ThreadsOfThisProcess(), with_helper);
  });
  instance.join();
}

TEST(IntraOpThreads, AreGivenBackWhereThoseOfAllModelsOutnumberTheCoresAndComeBackForTheNextBatch) {
  const IntraOpThreads threads(/*per_instance=*/2, /*instances=*/1);
  const IntraOpThreads others(omp_get_num_procs(), /*instances=*/1);
  std::thread instance([&] {
    threads.Enter();
    for (int batch = 0; batch < 3; ++batch) {
      const int before = ThreadsOfThisProcess();
      UseHelpers();
      EXPECT_EQ(ThreadsOfThisProcess(), before + 1);
      threads.Idle();
      EXPECT_TRUE(ComesDownTo(before));
    }
  });
  instance.join();
}

}  // namespace
}  // namespace fovea
