#include "server/scheduler/device_use.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

TEST(DeviceUseTest, IsTheThreadsThatAModelKeepsBusy) {
  DeviceUse use;
  EXPECT_EQ(use.threads(kSecond), 0);
  Nanos now = kSecond;
  for (int run = 0; run < 500; ++run) {
    now += 20 * kMillisecond;
    use.Add(/*device_time=*/30 * kMillisecond, now);  // 10 ms on three threads
  }
  EXPECT_NEAR(use.threads(now), 1.5, 0.05);
}

TEST(DeviceUseTest, ForgetsWhoHasStopped) {
  DeviceUse use;
  use.Add(DeviceUse::kMemory, kSecond);
  EXPECT_DOUBLE_EQ(use.threads(kSecond), 1);
  EXPECT_NEAR(use.threads(kSecond + DeviceUse::kMemory), 0.37, 0.01);
  EXPECT_LT(use.threads(kSecond + 5 * DeviceUse::kMemory), 0.01);
}

}  // namespace
}  // namespace fovea
