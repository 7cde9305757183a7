#include "server/executor/lane_devices.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "tests/server/executor/fake_gpu.h"

namespace fovea {
namespace {

constexpr auto kAuto = models::InstanceKind::kAuto;
constexpr auto kCpu = models::InstanceKind::kCpu;
constexpr auto kGpu = models::InstanceKind::kGpu;
constexpr auto kFp32 = models::Precision::kFp32;
constexpr auto kInt8 = models::Precision::kInt8;

TEST(LaneDevices, Row30AGpuIsRefusedInWordsWhereThereIsNone) {
  const auto arrangement = ArrangeLanes({.kind = kGpu}, kFp32, 1, /*gpus=*/{}, 1);
  EXPECT_EQ(arrangement.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(arrangement.status()), "model.no_device");
  EXPECT_THAT(std::string(arrangement.status().message()), testing::HasSubstr("KIND_GPU"));
  for (const auto kind : {kAuto, kCpu}) {
    EXPECT_THAT(ArrangeLanes({.kind = kind}, kFp32, 1, /*gpus=*/{}, 1)->gpus, testing::IsEmpty());
  }
  const auto fourth = ArrangeLanes({.kind = kGpu, .gpus = {0, 3}}, kFp32, 1, /*gpus=*/{0, 1, 2}, 1);
  EXPECT_EQ(ReasonOf(fourth.status()), "model.no_device");
  EXPECT_THAT(std::string(fourth.status().message()), testing::HasSubstr("GPU 3"));
}

TEST(LaneDevices, WhereThereAreGpusModelsRunOnAllOfThemUnlessTheySayOtherwise) {
  for (const auto kind : {kAuto, kGpu}) {
    const auto arrangement = *ArrangeLanes({.kind = kind}, kFp32, 8, /*gpus=*/{0, 1}, 16);
    EXPECT_THAT(arrangement.gpus, testing::ElementsAre(0, 1));
    EXPECT_EQ(arrangement.lanes, limits::kBatchesPerGpu);
    EXPECT_THAT(arrangement.threads_per_batch, testing::ElementsAre(1));
  }
  const auto third =
      *ArrangeLanes({.kind = kGpu, .gpus = {2}, .count = 5}, kFp32, 8, /*gpus=*/{0, 1, 2}, 16);
  EXPECT_THAT(third.gpus, testing::ElementsAre(2));
  EXPECT_EQ(third.lanes, 5);
  EXPECT_THAT(ArrangeLanes({.kind = kCpu}, kFp32, 8, /*gpus=*/{0, 1, 2}, 16)->gpus,
              testing::IsEmpty());
}

// One that cannot be used is left out (FindGpus): the others keep their numbers.
TEST(LaneDevices, AGpuThatIsMissingIsNotReplacedByTheNext) {
  const Gpus gpus = {std::make_shared<FakeGpu>(std::make_shared<FakeGpuState>(), 1),
                     std::make_shared<FakeGpu>(std::make_shared<FakeGpuState>(), 3)};
  const std::vector<int> numbers = NumbersOf(gpus);
  EXPECT_THAT(ArrangeLanes({.kind = kAuto}, kFp32, 8, numbers, 16)->gpus,
              testing::ElementsAre(1, 3));
  const auto second = ArrangeLanes({.kind = kGpu, .gpus = {3}}, kFp32, 8, numbers, 16);
  EXPECT_THAT(second->gpus, testing::ElementsAre(3));
  const auto devices = MakeLaneDevices(*second, {.gpus = gpus});
  ASSERT_EQ(devices.size(), 1);
  EXPECT_TRUE(devices[0]->SetAside(1000).fits);
  EXPECT_EQ(gpus[0]->budget().held(), 0);
  EXPECT_EQ(gpus[1]->budget().held(), 1000);
  for (const int missing : {0, 2, 4}) {
    const auto refused = ArrangeLanes({.kind = kGpu, .gpus = {missing}}, kFp32, 8, numbers, 16);
    EXPECT_EQ(ReasonOf(refused.status()), "model.no_device");
    EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("has 1, 3"));
  }
}

TEST(UsableGpus, LeaveOutThoseThatCannotBeOpened) {
  const auto opening = [](const std::set<int>& taken) {
    return UsableGpus(3, [&](int number) {
      TORCH_CHECK(!taken.contains(number), "all CUDA-capable devices are busy or unavailable");
      return std::make_shared<FakeGpu>(std::make_shared<FakeGpuState>(), number);
    });
  };
  EXPECT_THAT(NumbersOf(*opening({})), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(NumbersOf(*opening({0, 2})), testing::ElementsAre(1));
  const auto none = opening({0, 1, 2});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(none.status()), "device.unusable");
  EXPECT_TRUE(UsableGpus(0, [](int) { return nullptr; })->empty()) << "there are none";
}

TEST(LaneDevices, Int8RunsOnTheCpuAlone) {
  for (const std::vector<int>& gpus : {std::vector<int>(), {0, 1}}) {
    for (const auto kind : {kAuto, kCpu}) {
      const auto arrangement = *ArrangeLanes({.kind = kind, .count = 2}, kInt8, 8, gpus, 16);
      EXPECT_THAT(arrangement.gpus, testing::IsEmpty());
      EXPECT_EQ(arrangement.lanes, 2);
      EXPECT_THAT(arrangement.threads_per_batch, testing::ElementsAre(4));
    }
    const auto refused = ArrangeLanes({.kind = kGpu}, kInt8, 8, gpus, 16);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(refused.status()), "model.no_device");
    EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("INT8 on the CPU"));
  }
  for (const auto precision : {models::Precision::kBf16, models::Precision::kFp16}) {
    EXPECT_THAT(ArrangeLanes({.kind = kAuto}, precision, 8, /*gpus=*/{0, 1}, 16)->gpus,
                testing::ElementsAre(0, 1));
  }
}

TEST(LaneDevices, AreTheCpuOrEachOfTheGpus) {
  const LaneDeviceOptions options{
      .gpus = {std::make_shared<FakeGpu>(std::make_shared<FakeGpuState>(), 0),
               std::make_shared<FakeGpu>(std::make_shared<FakeGpuState>(), 1)}};
  const auto cpu = MakeLaneDevices({}, options);
  ASSERT_EQ(cpu.size(), 1);
  EXPECT_EQ(cpu[0]->name(), "CPU");
  const auto gpus = MakeLaneDevices({.gpus = {0, 1}}, options);
  ASSERT_EQ(gpus.size(), 2);
  EXPECT_EQ(gpus[0]->name(), "GPU");
}

struct Arranged {
  int lanes;
  std::vector<int> threads;
  bool operator==(const Arranged&) const = default;
};
Arranged Arrange(const models::InstanceGroup& group, int threads, int max_batch_size = 16) {
  const LaneArrangement arrangement =
      *ArrangeLanes(group, kFp32, threads, /*gpus=*/{}, max_batch_size);
  return {arrangement.lanes, arrangement.threads_per_batch};
}

TEST(LaneDevices, ThreadsAreSharedByTheInstancesThatAreAskedFor) {
  EXPECT_EQ(Arrange({.count = 1}, 8), (Arranged{1, {8}}));
  EXPECT_EQ(Arrange({.count = 3}, 8), (Arranged{3, {2}}));
  EXPECT_EQ(Arrange({.count = 16}, 8), (Arranged{16, {1}}));
  EXPECT_EQ(Arrange({.count = 1, .threads = 3}, 8), (Arranged{1, {3}}));
  EXPECT_EQ(Arrange({.count = 1, .threads = 30}, 8), (Arranged{1, {8}}));
  EXPECT_EQ(Arrange({.threads = 2}, 8), (Arranged{1, {2}}));
}

TEST(LaneDevices, WhereNothingIsAskedForABatchMayHaveOneThreadOrAll) {
  EXPECT_EQ(Arrange({}, 1), (Arranged{1, {1}}));
  EXPECT_EQ(Arrange({}, 2), (Arranged{2, {1, 2}}));
  EXPECT_EQ(Arrange({}, 6), (Arranged{6, {1, 2, 4, 6}}));
  EXPECT_EQ(Arrange({}, 8), (Arranged{8, {1, 2, 4, 8}}));
}

TEST(LaneDevices, NoMoreLanesThanImagesInABatch) {
  EXPECT_EQ(Arrange({}, 2, /*max_batch_size=*/1), (Arranged{1, {2}}));
  EXPECT_EQ(Arrange({}, 16, 4), (Arranged{4, {4, 8, 16}}));
  EXPECT_EQ(Arrange({}, 16, 6), (Arranged{5, {3, 6, 12, 16}}));
  EXPECT_EQ(Arrange({}, 1024, 1024).lanes, limits::kMaxInstances);
}

}  // namespace
}  // namespace fovea
