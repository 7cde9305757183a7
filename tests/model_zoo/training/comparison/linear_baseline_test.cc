#include "model_zoo/training/comparison/linear_baseline.h"

#include <gtest/gtest.h>

namespace fovea::models::training {
namespace {

// The task is none that the pixels solve by themselves.
TEST(LinearBaselineTest, ALinearClassifierStaysUnderHalf) {
  const LinearBaselineOptions options{.training_images = 6'000,
                                      .validation_images = 1'000,
                                      .epochs = 6,
                                      .weight_decays = {10.0, 100.0}};
  int heard = 0;
  const auto results =
      MeasureLinearBaseline(options, [&heard](const LinearBaselineResult&) { ++heard; });
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(heard, 2);
  for (const LinearBaselineResult& result : results) {
    EXPECT_LT(result.validation_accuracy, 0.5);
    EXPECT_GT(result.validation_accuracy,
              0.13);  // it did learn: chance is 0.1, with a deviation of 0.01
    EXPECT_GT(result.training_accuracy, result.validation_accuracy);
  }
}

}  // namespace
}  // namespace fovea::models::training
