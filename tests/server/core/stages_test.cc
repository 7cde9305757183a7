#include "server/core/stages.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fovea {
namespace {

Nanos Sum(const StageTimes& times) {
  Nanos sum = 0;
  for (int stage = 0; stage < kStageCount; ++stage) sum += times[static_cast<Stage>(stage)];
  return sum;
}

TEST(StageTimesTest, AttributesEveryMomentToOneStage) {
  StageTimes times(100);
  times.EndStage(Stage::kReceive, 110);
  times.EndStage(Stage::kQueue, 150);
  times.EndStage(Stage::kCompute, 180);
  times.EndStage(Stage::kQueue, 185);
  EXPECT_EQ(times[Stage::kReceive], 10);
  EXPECT_EQ(times[Stage::kQueue], 45);
  EXPECT_EQ(times[Stage::kCompute], 30);
  EXPECT_EQ(times[Stage::kEncode], 0);
  EXPECT_EQ(times.total(), 85);
  EXPECT_EQ(Sum(times), times.total());
}

TEST(StageTimesTest, ReattributingKeepsTheSum) {
  StageTimes times(0);
  times.EndStage(Stage::kDecode, 50);
  times.Reattribute(Stage::kDecode, Stage::kPreprocess, 20);
  EXPECT_EQ(times[Stage::kDecode], 30);
  EXPECT_EQ(times[Stage::kPreprocess], 20);
  times.Reattribute(Stage::kDecode, Stage::kQueue, 1'000);  // no more than there is
  EXPECT_EQ(times[Stage::kDecode], 0);
  EXPECT_EQ(times[Stage::kQueue], 30);
  EXPECT_EQ(Sum(times), times.total());
}

TEST(StageTimesTest, EveryStageHasAName) {
  for (std::string_view name : kStageNames) EXPECT_FALSE(name.empty());
  EXPECT_EQ(kStageNames[static_cast<int>(Stage::kReceive)], "receive");
  EXPECT_EQ(kStageNames[static_cast<int>(Stage::kEncode)], "encode");
}

}  // namespace
}  // namespace fovea
