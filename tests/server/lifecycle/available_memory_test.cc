#include "server/lifecycle/available_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "tests/server/lifecycle/fake_files.h"

namespace fovea {
namespace {

constexpr char kMemInfo[] = "MemTotal:       2048 kB\nMemFree:  1 kB\nMemAvailable:   1024 kB\n";

std::map<std::string, std::string> InContainer(std::map<std::string, std::string> more) {
  more["/proc/meminfo"] = kMemInfo;
  more["/proc/self/cgroup"] = "0::/box\n";
  more["/proc/self/mountinfo"] = kMountsV2;
  return more;
}

TEST(AvailableMemoryTest, IsTheMachinesWithoutALimit) {
  EXPECT_EQ(FindAvailableMemory(FakeFiles({{"/proc/meminfo", kMemInfo}})), 1 << 20);
  EXPECT_EQ(
      FindAvailableMemory(FakeFiles(InContainer({{"/sys/fs/cgroup/box/memory.max", "max\n"},
                                                 {"/sys/fs/cgroup/box/memory.current", "9"}}))),
      1 << 20);
  EXPECT_EQ(FindAvailableMemory(FakeFiles({})), std::nullopt);
}

TEST(AvailableMemoryTest, IsWhatALimitLeavesIdleFilesCountingAsFree) {
  EXPECT_EQ(FindAvailableMemory(FakeFiles(InContainer(
                {{"/sys/fs/cgroup/box/memory.max", "1000\n"},
                 {"/sys/fs/cgroup/box/memory.current", "700\n"},
                 {"/sys/fs/cgroup/box/memory.stat", "anon 500\ninactive_file 200\n"}}))),
            500);
}

TEST(AvailableMemoryTest, TheTightestOnTheWayUpCounts) {
  EXPECT_EQ(FindAvailableMemory(FakeFiles(InContainer({{"/sys/fs/cgroup/box/memory.max", "1000"},
                                                       {"/sys/fs/cgroup/box/memory.current", "0"},
                                                       {"/sys/fs/cgroup/memory.max", "600"},
                                                       {"/sys/fs/cgroup/memory.current", "500"}}))),
            100);
}

TEST(AvailableMemoryTest, Version1IsReadToo) {
  EXPECT_EQ(
      FindAvailableMemory(FakeFiles({{"/proc/self/cgroup", "7:memory:/docker/abc\n"},
                                     {"/proc/self/mountinfo", kMountsV1InContainer},
                                     {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"},
                                     {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "1200\n"}})),
      0)
      << "above the limit, while the kernel takes pages back";
}

}  // namespace
}  // namespace fovea
