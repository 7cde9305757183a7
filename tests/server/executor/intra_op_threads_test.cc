#include "server/executor/intra_op_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

namespace fovea {
namespace {

int ThreadsOfThisProcess() {
  using std::filesystem::directory_iterator;
  return static_cast<int>(
      std::distance(directory_iterator("/proc/self/task"), directory_iterator()));
}

// Threads that end are still seen for a moment.
bool ComesDownTo(int threads) {
  for (int i = 0; i < 500 && ThreadsOfThisProcess() > threads; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return ThreadsOfThisProcess() == threads;
}

int ThreadsOfAnOperator() {
  std::atomic<int> chunks = 0;
  at::parallel_for(0, 1 << 20, 1, [&](int64_t, int64_t) { ++chunks; });
  return chunks;
}

TEST(IntraOpThreads, AreAsManyAsTheModelAskedForWhateverOthersAskForLater) {
  const IntraOpThreads one(/*per_instance=*/1, /*instances=*/1);
  const IntraOpThreads three(/*per_instance=*/3, /*instances=*/1);
  std::barrier entered(2);
  int used_by_one = 0, used_by_three = 0;
  std::thread first([&] {
    one.Enter();
    entered.arrive_and_wait();  // the other enters
    entered.arrive_and_wait();
    used_by_one = ThreadsOfAnOperator();
  });
  std::thread second([&] {
    entered.arrive_and_wait();
    three.Enter();
    entered.arrive_and_wait();
    used_by_three = ThreadsOfAnOperator();
  });
  first.join();
  second.join();
  EXPECT_EQ(used_by_one, 1);
  EXPECT_EQ(used_by_three, 3);
}

TEST(IntraOpThreads, AreKeptWhileTheCoresSufficeForAll) {
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "one core";
  const IntraOpThreads threads(/*per_instance=*/2, /*instances=*/1);
  std::thread instance([&] {
    threads.Enter();
    ThreadsOfAnOperator();
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
      ThreadsOfAnOperator();
      EXPECT_EQ(ThreadsOfThisProcess(), before + 1);
      threads.Idle();
      EXPECT_TRUE(ComesDownTo(before));
    }
  });
  instance.join();
}

}  // namespace
}  // namespace fovea
