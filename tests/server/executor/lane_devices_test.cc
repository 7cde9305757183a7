#include "server/executor/lane_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

TEST(LaneDevices, Row30AGpuIsRefusedInWordsWhereThereIsNone) {
  const auto device = MakeLaneDevice({.kind = models::InstanceKind::kGpu}, {}, {});
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(device.status()), "model.no_device");
  EXPECT_THAT(std::string(device.status().message()), testing::HasSubstr("KIND_GPU"));
  for (const auto kind : {models::InstanceKind::kAuto, models::InstanceKind::kCpu}) {
    EXPECT_EQ((*MakeLaneDevice({.kind = kind}, {}, {}))->name(), "CPU");
  }
}

struct Arranged {
  int lanes;
  std::vector<int> threads;
  bool operator==(const Arranged&) const = default;
};
Arranged Arrange(const models::InstanceGroup& group, int threads, int max_batch_size = 16) {
  const LaneArrangement arrangement = ArrangeLanes(group, threads, max_batch_size);
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
