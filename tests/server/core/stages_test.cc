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

TEST(StageTimesTest, IntervalsLieWhereTheTimeWasSpent) {
  StageTimes times(100);
  times.EndStage(Stage::kReceive, 110);
  times.EndStage(Stage::kQueue, 150);
  times.EndStage(Stage::kCompute, 180);
  times.EndStage(Stage::kQueue, 185);
  ASSERT_EQ(times.intervals().size(), 4u);
  EXPECT_EQ(times.intervals()[0].start, 100);
  EXPECT_EQ(times.intervals()[1].start, 110);
  EXPECT_EQ(times.intervals()[1].end, 150);
  EXPECT_EQ(times.intervals()[3].stage, Stage::kQueue);
  EXPECT_EQ(times.intervals()[3].start, 180);
  EXPECT_EQ(times.intervals()[3].attributed, 5);
}

TEST(StageTimesTest, ImagesDecodedSideBySideOverlapAndKeepTheSum) {
  StageTimes times(0);
  times.EndImaging(100, /*decode=*/60, /*first_decoded=*/40, /*last_decoded=*/80);
  EXPECT_EQ(times[Stage::kDecode], 60);
  EXPECT_EQ(times[Stage::kPreprocess], 40);
  EXPECT_EQ(Sum(times), times.total());
  ASSERT_EQ(times.intervals().size(), 2u);
  EXPECT_EQ(times.intervals()[0].end, 80);
  EXPECT_EQ(times.intervals()[1].start, 40);
  EXPECT_EQ(times.intervals()[1].end, 100);
}

TEST(StageTimesTest, ImagingThatDecodedNothingKeepsTheSum) {
  StageTimes failed(0), pixels(0);
  failed.EndImaging(100, /*decode=*/1'000, kNever, kNever);  // no more than there is
  EXPECT_EQ(failed[Stage::kDecode], 100);
  EXPECT_EQ(failed.intervals().size(), 1u);
  pixels.EndImaging(100, 0, kNever, kNever);
  EXPECT_EQ(pixels[Stage::kPreprocess], 100);
  EXPECT_EQ(pixels.intervals().size(), 1u);
}

TEST(StageTimesTest, MoreIntervalsThanAreKeptStillCount) {
  StageTimes times(0);
  for (int i = 1; i <= 50; ++i) times.EndStage(Stage::kQueue, i);
  EXPECT_EQ(times[Stage::kQueue], 50);
  EXPECT_EQ(times.intervals().size(), 12u);
}

TEST(StageTimesTest, EveryStageHasAName) {
  for (std::string_view name : kStageNames) EXPECT_FALSE(name.empty());
  EXPECT_EQ(kStageNames[static_cast<int>(Stage::kReceive)], "receive");
  EXPECT_EQ(kStageNames[static_cast<int>(Stage::kEncode)], "encode");
}

}  // namespace
}  // namespace fovea
