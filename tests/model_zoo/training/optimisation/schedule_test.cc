#include "model_zoo/training/optimisation/schedule.h"

#include <gtest/gtest.h>

namespace fovea::models::training {
namespace {

const Schedule kSchedule{.peak = 2.0, .final_share = 0.1, .warmup_steps = 4, .total_steps = 105};

TEST(ScheduleTest, WarmsUpEvenlyToThePeak) {
  EXPECT_DOUBLE_EQ(kSchedule.At(0), 0.5);
  EXPECT_DOUBLE_EQ(kSchedule.At(1), 1.0);
  EXPECT_DOUBLE_EQ(kSchedule.At(3), 2.0);
  EXPECT_DOUBLE_EQ(kSchedule.At(4), 2.0);
}

TEST(ScheduleTest, FollowsHalfACosineToTheFinalShare) {
  // Steps 4 to 104 are the 100 intervals of the half wave.
  EXPECT_NEAR(kSchedule.At(54), (2.0 + 0.2) / 2, 1e-12);
  EXPECT_NEAR(kSchedule.At(29), 0.2 + 1.8 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_NEAR(kSchedule.At(104), 0.2, 1e-12);
  for (int step = 5; step < 105; ++step) EXPECT_LT(kSchedule.At(step), kSchedule.At(step - 1));
}

TEST(ScheduleTest, StaysAtTheFloorBeyondTheLastStep) {
  EXPECT_NEAR(kSchedule.At(1000), 0.2, 1e-12);
}

TEST(ScheduleTest, AllStepsMayBeWarmUp) {
  const Schedule schedule{.peak = 1.0, .warmup_steps = 2, .total_steps = 2};
  EXPECT_DOUBLE_EQ(schedule.At(1), 1.0);
}

}  // namespace
}  // namespace fovea::models::training
