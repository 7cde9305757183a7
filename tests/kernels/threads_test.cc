#include "kernels/threads.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <thread>

namespace fovea::kernels {
namespace {

TEST(ProbeThreads, LeavesNoneOfThem) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  ProbeThreads(8);
  EXPECT_EQ(threads(), before);
}

// The slice in nanoseconds of the calling thread; 0 on systems that have the same for all.
uint64_t TimeSlice() {
  uint64_t attributes[6] = {48};
  if (syscall(SYS_sched_getattr, 0, attributes, sizeof(attributes), 0) != 0) return 0;
  return attributes[3];
}

TEST(ShortenTimeSlices, AreThoseOfThreadsThatItStartsToo) {
  std::thread([] {
    const uint64_t before = TimeSlice();
    if (before == 0) GTEST_SKIP() << "before Linux 6.12 all threads have the same";
    ShortenTimeSlices();
    EXPECT_LT(TimeSlice(), before);
    std::thread([before] { EXPECT_LT(TimeSlice(), before); }).join();
  }).join();
}

}  // namespace
}  // namespace fovea::kernels
