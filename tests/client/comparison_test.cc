#include "client/cpp/cli/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fovea::client {
namespace {

using ::testing::ElementsAre;

Trial TrialOf(double latency_ms, double compute_ms, int64_t peak_bytes = 1000, int batch_size = 1) {
  return {absl::Milliseconds(latency_ms), absl::Milliseconds(compute_ms), peak_bytes, batch_size};
}

// Classes by index with these confidences, most probable first as given.
std::vector<ClassScore> Scores(const std::vector<std::pair<int, float>>& confidences) {
  std::vector<ClassScore> scores;
  for (auto [index, confidence] : confidences) {
    scores.push_back({.index = index, .confidence = confidence});
  }
  return scores;
}

Measured ModelWith(std::vector<Trial> trials, std::vector<std::vector<ClassScore>> opinions) {
  return {.model = {"m"}, .trials = std::move(trials), .opinions = std::move(opinions)};
}

TEST(RoundOrder, GoesForwardsAndBackwardsInTurn) {
  EXPECT_THAT(RoundOrder(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(RoundOrder(3, 1), ElementsAre(2, 1, 0));
  EXPECT_THAT(RoundOrder(3, 2), ElementsAre(0, 1, 2));
}

TEST(Comparison, BaselineHasRatiosOfOneAndAgreesWithItself) {
  const auto rows =
      Compare({ModelWith({TrialOf(10, 8), TrialOf(30, 20)}, {Scores({{0, 0.9f}, {1, 0.1f}})})});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].latency_ms, (Quartiles{15, 20, 25}));
  EXPECT_EQ(rows[0].compute_ms, (Quartiles{11, 14, 17}));
  EXPECT_EQ(rows[0].latency_ratio, (Quartiles{1, 1, 1}));
  EXPECT_EQ(rows[0].images_agreeing, 1u);
  EXPECT_EQ(rows[0].max_confidence_difference, 0);
}

// The machine slows down threefold in the middle; the second model always takes twice as long.
TEST(Comparison, RatioIsOfTheSameRoundSoThatDriftCancels) {
  const std::vector<std::vector<ClassScore>> opinions = {Scores({{0, 1.0f}})};
  const auto rows =
      Compare({ModelWith({TrialOf(10, 10), TrialOf(10, 10), TrialOf(30, 30)}, opinions),
               ModelWith({TrialOf(20, 20), TrialOf(60, 60), TrialOf(60, 60)}, opinions)});
  EXPECT_EQ(rows[1].latency_ratio.median, 2);
  EXPECT_EQ(rows[1].compute_ratio.median, 2);
}

TEST(Comparison, PeakAndBatchAreTheLargestSeen) {
  const auto rows =
      Compare({ModelWith({TrialOf(1, 1, 500, 1), TrialOf(1, 1, 900, 3), TrialOf(1, 1, 700, 2)},
                         {Scores({{0, 1.0f}})})});
  EXPECT_EQ(rows[0].peak_bytes, 900);
  EXPECT_EQ(rows[0].largest_batch, 3);
}

TEST(Comparison, CountsImagesWithTheSameMostProbableClass) {
  const auto cat = Scores({{0, 0.75f}, {1, 0.25f}});
  const auto dog = Scores({{1, 0.5f}, {0, 0.5f}});
  const auto rows = Compare(
      {ModelWith({TrialOf(1, 1)}, {cat, cat, dog}), ModelWith({TrialOf(1, 1)}, {cat, dog, dog})});
  EXPECT_EQ(rows[1].images_agreeing, 2u);
  EXPECT_EQ(rows[1].top1[1].index, 1);
  // Class 1 of the second image: 0.25 and 0.5. Classes are compared by index, not by place.
  EXPECT_EQ(rows[1].max_confidence_difference, 0.25);
}

TEST(Comparison, OfModelsWithOtherClassesHasNoConfidenceDifference) {
  const auto two = Scores({{0, 0.75f}, {1, 0.25f}});
  EXPECT_EQ(Compare({ModelWith({}, {two}), ModelWith({}, {Scores({{0, 1.0f}})})})[1]
                .max_confidence_difference,
            std::nullopt);
  EXPECT_EQ(Compare({ModelWith({}, {two}), ModelWith({}, {Scores({{0, 0.75f}, {2, 0.25f}})})})[1]
                .max_confidence_difference,
            std::nullopt);
}

TEST(Comparison, WithoutComputeTimesHasNoComputeRatio) {
  const auto rows = Compare({ModelWith({TrialOf(10, 0)}, {Scores({{0, 1.0f}})})});
  EXPECT_EQ(rows[0].compute_ratio, (Quartiles{0, 0, 0}));
  EXPECT_EQ(rows[0].latency_ratio, (Quartiles{1, 1, 1}));
}

}  // namespace
}  // namespace fovea::client
