#include "server/postprocess/classification.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fovea {
namespace {

TEST(TopClassesTest, OrdersByLogitAndGivesTheSoftmaxOverAllClasses) {
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f};
  const std::vector<std::string> labels = {"a", "b", "c"};
  const auto classes = TopClasses(logits, 2, labels);
  ASSERT_EQ(classes.size(), 2u);
  EXPECT_EQ(classes[0].label, "b");
  EXPECT_EQ(classes[1].label, "c");
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
  EXPECT_NEAR(classes[0].confidence, std::exp(3.0) / sum, 1e-6);
  EXPECT_EQ(classes[0].logit, 3.0f);
}

TEST(TopClassesTest, GivesEachClassASigmoidOfItsOwn) {
  const std::vector<float> logits = {-1000, 0, 2};
  const auto classes = TopClasses(logits, 3, {}, /*sigmoid=*/true);
  ASSERT_EQ(classes.size(), 3u);
  EXPECT_EQ(classes[0].index, 2);
  EXPECT_NEAR(classes[0].confidence, 0.880797, 1e-6);
  EXPECT_FLOAT_EQ(classes[1].confidence, 0.5);
  EXPECT_EQ(classes[2].confidence, 0);
}

TEST(TopClassesTest, BreaksTiesByTheLowerIndex) {
  const std::vector<float> logits = {5.0f, 7.0f, 7.0f, 7.0f};
  const auto classes = TopClasses(logits, 3, {});
  EXPECT_EQ(classes[0].index, 1);
  EXPECT_EQ(classes[1].index, 2);
  EXPECT_EQ(classes[2].index, 3);
}

TEST(TopClassesTest, GivesAllClassesWhenThereAreFewerThanAskedFor) {
  const std::vector<float> logits = {0.0f, 1.0f};
  EXPECT_EQ(TopClasses(logits, 10, {}).size(), 2u);
}

TEST(LargestIndicesTest, NaNSortsLast) {
  const float nan = std::nanf("");
  std::vector<float> values(1000, nan);
  values[999] = -1;
  values[500] = 2;
  const std::vector<int> order = LargestIndices(values, 4);
  EXPECT_EQ(order, (std::vector<int>{500, 999, 0, 1}));
}

TEST(TopClassesTest, DoesNotOverflowOnLargeLogits) {
  const std::vector<float> logits = {3e38f, -3e38f};
  EXPECT_FLOAT_EQ(TopClasses(logits, 1, {})[0].confidence, 1.0f);
}

}  // namespace
}  // namespace fovea
