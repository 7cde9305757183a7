#include "server/executor/lane_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status.h"

namespace fovea {
namespace {

TEST(LaneDevices, Row30AGpuIsRefusedInWordsWhereThereIsNone) {
  const auto device = MakeLaneDevice({.kind = models::InstanceKind::kGpu}, {});
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(device.status()), "model.no_device");
  EXPECT_THAT(std::string(device.status().message()), testing::HasSubstr("KIND_GPU"));
  for (const auto kind : {models::InstanceKind::kAuto, models::InstanceKind::kCpu}) {
    EXPECT_EQ((*MakeLaneDevice({.kind = kind}, {}))->name(), "CPU");
  }
}

TEST(LaneDevices, ThreadsAreSharedByTheInstances) {
  EXPECT_EQ(ThreadsPerInstance({.count = 1}, 8), 8);
  EXPECT_EQ(ThreadsPerInstance({.count = 3}, 8), 2);
  EXPECT_EQ(ThreadsPerInstance({.count = 16}, 8), 1);
  EXPECT_EQ(ThreadsPerInstance({.count = 1, .threads = 3}, 8), 3);
  EXPECT_EQ(ThreadsPerInstance({.count = 1, .threads = 30}, 8), 8);
}

}  // namespace
}  // namespace fovea
