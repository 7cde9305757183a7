#include "server/executor/intra_op_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/core/thread_scheduling.h"

namespace fovea {
namespace {

const std::vector<int> kOne = {1}, kTwo = {2}, kThree = {3};

// The threads that help this one inside an operator.
std::set<pid_t> HelpersOfAnOperator() {
  std::mutex mutex;
  std::set<pid_t> threads;
  at::parallel_for(0, 1 << 20, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(::gettid());
  });
  threads.erase(::gettid());
  return threads;
}

bool Lives(pid_t thread) {
  return std::filesystem::exists("/proc/self/task/" + std::to_string(thread));
}

// A thread that ends is still seen for a moment.
bool Ends(pid_t thread) {
  for (int i = 0; i < 500 && Lives(thread); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return !Lives(thread);
}

int ThreadsOfAnOperator() {
  std::atomic<int> chunks = 0;
  at::parallel_for(0, 1 << 20, 1, [&](int64_t, int64_t) { ++chunks; });
  return chunks;
}

TEST(IntraOpThreads, AreAsManyAsTheModelAskedForWhateverOthersAskForLater) {
  const IntraOpThreads one(kOne, /*instances=*/1);
  const IntraOpThreads three(kThree, /*instances=*/1);
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
  const IntraOpThreads threads(kTwo, /*instances=*/1);
  std::thread instance([&] {
    threads.Enter();
    const std::set<pid_t> helpers = HelpersOfAnOperator();
    threads.Idle();
    EXPECT_EQ(helpers.size(), 1);
    EXPECT_EQ(HelpersOfAnOperator(), helpers) << "others would have been started";
  });
  instance.join();
}

TEST(IntraOpThreads, AreGivenBackWhereThoseOfAllModelsOutnumberTheCoresAndComeBackForTheNextBatch) {
  const IntraOpThreads threads(kTwo, /*instances=*/1);
  const std::vector<int> all = {omp_get_num_procs()};
  const IntraOpThreads others(all, /*instances=*/1);
  std::thread instance([&] {
    threads.Enter();
    for (int batch = 0; batch < 3; ++batch) {
      const std::set<pid_t> helpers = HelpersOfAnOperator();
      EXPECT_EQ(helpers.size(), 1);
      for (const pid_t helper : helpers) EXPECT_TRUE(Lives(helper));
      threads.Idle();
      for (const pid_t helper : helpers) EXPECT_TRUE(Ends(helper));
    }
  });
  instance.join();
}

TEST(IntraOpThreads, AreAsManyAsEachBatchHas) {
  const std::vector<int> elastic = {1, 2, 4};
  const IntraOpThreads threads(elastic, /*instances=*/4);
  std::thread instance([&] {
    threads.Enter();
    for (const int batch : {4, 1, 2, 4, 2, 1, 1, 4}) {
      threads.Begin(batch);
      EXPECT_EQ(ThreadsOfAnOperator(), batch);
      threads.End(batch);
    }
  });
  instance.join();
}

TEST(IntraOpThreads, OfABatchOnFewerThreadsLeaveThoseOfOthersAlone) {
  const std::vector<int> elastic = {1, 2, 4};
  const IntraOpThreads threads(elastic, /*instances=*/4);
  std::thread instance([&] {
    threads.Enter();
    threads.Begin(4);
    const std::set<pid_t> all = HelpersOfAnOperator();
    EXPECT_EQ(all.size(), 3u);
    threads.End(4);
    for (const pid_t helper : all) EXPECT_TRUE(Lives(helper)) << "the next batch has them at once";
    threads.Begin(1);
    for (const pid_t helper : all) EXPECT_TRUE(Ends(helper)) << "another batch has its core";
    threads.End(1);
    threads.Begin(2);
    const std::set<pid_t> one = HelpersOfAnOperator();
    EXPECT_EQ(one.size(), 1u);
    threads.End(2);
    for (const pid_t helper : one) EXPECT_TRUE(Ends(helper)) << "a batch on all may come elsewhere";
  });
  instance.join();
}

TEST(IntraOpThreads, OfInstancesThatShareTheCoresAreNoMoreThanOfOneOnAll) {
  if (omp_get_num_procs() < 2) GTEST_SKIP() << "one core";
  const std::vector<int> elastic = {1, omp_get_num_procs()};
  const IntraOpThreads threads(elastic, /*instances=*/omp_get_num_procs());
  std::thread instance([&] {
    threads.Enter();
    threads.Begin(elastic.back());
    const std::set<pid_t> helpers = HelpersOfAnOperator();
    threads.End(elastic.back());
    threads.Idle();
    EXPECT_EQ(helpers.size(), elastic.back() - 1u);
    threads.Begin(elastic.back());
    EXPECT_EQ(HelpersOfAnOperator(), helpers) << "the cores suffice, so they were kept";
    threads.End(elastic.back());
  });
  instance.join();
}

// Who receives requests must not interrupt them: server/core/thread_scheduling.h.
TEST(IntraOpThreads, AloneInterruptOthersWhenTheyWakeUp) {
  const IntraOpThreads two(kTwo, /*instances=*/1);
  std::thread thread([&] {
    WaitForTimeSlices();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    two.Enter();
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    const std::set<pid_t> helpers = HelpersOfAnOperator();
    EXPECT_EQ(helpers.size(), 1u);
    for (const pid_t helper : helpers) EXPECT_EQ(sched_getscheduler(helper), SCHED_OTHER);
    IntraOpThreads::Leave();
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
  });
  thread.join();
}

}  // namespace
}  // namespace fovea
