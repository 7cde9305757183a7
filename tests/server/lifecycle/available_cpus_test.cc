#include "server/lifecycle/available_cpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/server/lifecycle/fake_files.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Files = std::map<std::string, std::string>;

// On a machine with 64 processors, all in the affinity mask.
AvailableCpus On(const Files& files, int affinity = 64) {
  return FindAvailableCpus(64, affinity, FakeFiles(files));
}

Files V2(const std::string& cgroup, Files more) {
  more["/proc/self/cgroup"] = "0::" + cgroup + "\n";
  more["/proc/self/mountinfo"] = kMountsV2;
  return more;
}

Files V1(Files more) {
  more["/proc/self/cgroup"] = "7:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/\n";
  more["/proc/self/mountinfo"] = kMountsV1InContainer;
  return more;
}

TEST(AvailableCpusTest, WithoutAQuotaTheAffinityMaskDecides) {
  EXPECT_EQ(On({}).threads(), 64);
  EXPECT_EQ(On({}).Text(), "64 of 64 processors");
  EXPECT_EQ(On({}, 3).threads(), 3);
  EXPECT_EQ(On({}, 3).Text(), "3 of 64 processors (affinity mask 3)");
  EXPECT_EQ(On({}, 0).threads(), 64) << "the kernel did not say";
}

TEST(AvailableCpusTest, AQuotaOfVersion2Bounds) {
  const AvailableCpus cpus =
      On(V2("/pod/box", {{"/sys/fs/cgroup/pod/box/cpu.max", "250000 100000\n"}}));
  EXPECT_EQ(cpus.quota, 2.5);
  EXPECT_EQ(cpus.threads(), 2) << "a third thread would use up the quota early in each period";
  EXPECT_EQ(cpus.Text(), "2 of 64 processors (cgroup quota 2.50)");
}

TEST(AvailableCpusTest, AQuotaOfVersion1Bounds) {
  const std::string folder = "/sys/fs/cgroup/cpu,cpuacct";
  EXPECT_EQ(On(V1({{folder + "/cpu.cfs_quota_us", "400000\n"},
                   {folder + "/cpu.cfs_period_us", "100000\n"}}))
                .threads(),
            4);
  EXPECT_EQ(
      On(V1({{folder + "/cpu.cfs_quota_us", "-1\n"}, {folder + "/cpu.cfs_period_us", "100000\n"}}))
          .threads(),
      64)
      << "-1: none";
}

TEST(AvailableCpusTest, TheTightestOnTheWayUpCounts) {
  const Files files =
      V2("/kubepods/pod1/box", {{"/sys/fs/cgroup/kubepods/cpu.max", "800000 100000"},
                                {"/sys/fs/cgroup/kubepods/pod1/cpu.max", "300000 100000"},
                                {"/sys/fs/cgroup/kubepods/pod1/box/cpu.max", "max 100000"}});
  EXPECT_EQ(On(files).threads(), 3);
  EXPECT_EQ(On(files, 2).threads(), 2) << "fewer than the quota";
}

TEST(AvailableCpusTest, LessThanOneProcessorIsOneThread) {
  EXPECT_EQ(On(V2("/", {{"/sys/fs/cgroup/cpu.max", "20000 100000"}})).threads(), 1);
}

TEST(AvailableCpusTest, WhatCannotBeUnderstoodBoundsNothing) {
  for (const char* text : {"", "max", "max 100000", "100000", "-1 100000", "100000 0", "x y",
                           "100000 100000 100000", "99999999999999999999 1"}) {
    const AvailableCpus cpus = On(V2("/", {{"/sys/fs/cgroup/cpu.max", text}}));
    EXPECT_EQ(cpus.quota, std::nullopt) << text;
    EXPECT_EQ(cpus.threads(), 64) << text;
  }
}

TEST(CgroupTest, FoldersGoFromTheProcessUpToTheMount) {
  const CgroupFolders found = FindCgroup(FakeFiles(V2("/a/b", {})), "cpu");
  EXPECT_EQ(found.version, 2);
  EXPECT_THAT(found.folders,
              ElementsAre("/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"));
}

TEST(CgroupTest, AContainerSeesItsOwnCgroupAtTheMount) {
  const CgroupFolders found = FindCgroup(FakeFiles(V1({})), "cpu");
  EXPECT_EQ(found.version, 1);
  EXPECT_THAT(found.folders, ElementsAre("/sys/fs/cgroup/cpu,cpuacct"));
  EXPECT_THAT(FindCgroup(FakeFiles(V1({})), "memory").folders,
              ElementsAre("/sys/fs/cgroup/memory"));
}

TEST(CgroupTest, ACgroupThatIsNotBelowTheMountIsReadAtTheMount) {
  Files files = V1({});
  files["/proc/self/cgroup"] = "4:cpu,cpuacct:/docker/abcdef\n";
  EXPECT_THAT(FindCgroup(FakeFiles(files), "cpu").folders,
              ElementsAre("/sys/fs/cgroup/cpu,cpuacct"));
}

TEST(CgroupTest, PathsMayHoldColonsAndSpaces) {
  EXPECT_THAT(FindCgroup(FakeFiles({{"/proc/self/cgroup", "0::/a:b c\n"},
                                    {"/proc/self/mountinfo",
                                     "31 23 0:28 / /my\\040mounts/cg rw - cgroup2 cgroup2 rw\n"}}),
                         "cpu")
                  .folders,
              ElementsAre("/my mounts/cg/a:b c", "/my mounts/cg"));
}

TEST(CgroupTest, NonsenseIsNoCgroup) {
  for (const char* text : {"", "\n\n", "0::", "cpu", ":::::", "- - - -", "31 23 0:28 / /x rw -"}) {
    EXPECT_THAT(
        FindCgroup(FakeFiles({{"/proc/self/cgroup", text}, {"/proc/self/mountinfo", text}}), "cpu")
            .folders,
        IsEmpty())
        << text;
  }
}

TEST(AvailableCpusTest, ThisMachineHasSome) {
  const AvailableCpus cpus = FindAvailableCpus();
  EXPECT_GE(cpus.threads(), 1);
  EXPECT_LE(cpus.threads(), cpus.machine);
}

}  // namespace
}  // namespace fovea
