#include "server/core/request_memory.h"

#include <gtest/gtest.h>

#include "base/status.h"
#include "server/core/testing/fake_clock.h"

namespace fovea {
namespace {

class RequestMemoryTest : public testing::Test {
 protected:
  FakeClock clock_;
  MemoryBudget budget_{100, clock_};
};

TEST_F(RequestMemoryTest, WhatOthersHoldIsUnavailable) {
  RequestMemory one(budget_), other(budget_);
  EXPECT_TRUE(one.Take(60).ok());
  const absl::Status refused = other.Take(41);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), "server.request_memory");
  EXPECT_TRUE(other.Take(40).ok()) << "what was refused was not taken";
  one.KeepOnly(10);
  EXPECT_TRUE(other.Take(50).ok());
  EXPECT_EQ(budget_.held(), 100);
}

TEST_F(RequestMemoryTest, WhatNobodyCouldHaveIsTooMuch) {
  RequestMemory memory(budget_);
  EXPECT_TRUE(memory.Take(30).ok());
  const absl::Status refused = memory.Take(71);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), "request.memory");
}

TEST_F(RequestMemoryTest, IsGivenBackWithItsRequest) {
  {
    RequestMemory memory(budget_);
    EXPECT_TRUE(memory.Take(100).ok());
    memory.KeepOnly(200);  // gives nothing, takes nothing
    EXPECT_EQ(budget_.held(), 100);
    memory.Release();
    EXPECT_EQ(budget_.held(), 0);
    EXPECT_TRUE(memory.Take(5).ok());
  }
  EXPECT_EQ(budget_.held(), 0);
}

}  // namespace
}  // namespace fovea
