#include "server/compare/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "base/run_lengths.h"

namespace fovea {
namespace {

// Classes by index with these logits, best first as given.
Results Classes(const std::vector<std::pair<int, float>>& logits) {
  std::vector<ClassScore> scores;
  for (const auto& [index, logit] : logits) scores.push_back({.index = index, .logit = logit});
  return ClassifyResults{std::move(scores)};
}

// log(3): the softmax of {kThrice, 0} is 3/4 and 1/4.
const float kThrice = std::log(3.0f);

TEST(AgreeTest, CountsImagesWithTheSameMostProbableClass) {
  const Results cat = Classes({{0, kThrice}, {1, 0}}), dog = Classes({{1, kThrice}, {0, 0}});
  const std::vector<Results> baseline = {cat, cat, dog}, variant = {cat, dog, dog};
  const auto agreement = std::get<ClassAgreement>(Agree(variant, baseline));
  EXPECT_EQ(agreement.images, 3);
  EXPECT_EQ(agreement.same_top1, 2);
  EXPECT_DOUBLE_EQ(agreement.top5_overlap, 1) << "there are two classes";
  EXPECT_NEAR(agreement.max_confidence_difference, 0.5, 1e-6) << "by class, not by place";
  // Of the second image: 3/4 log(3) + 1/4 log(1/3).
  EXPECT_NEAR(agreement.kl_divergence, std::log(3.0) / 2 / 3, 1e-6);
}

TEST(AgreeTest, KlDivergenceIsFromTheBaseline) {
  const std::vector<Results> baseline = {Classes({{0, kThrice}, {1, 0}})};
  const std::vector<Results> flat = {Classes({{0, 0}, {1, 0}})};
  EXPECT_NEAR(std::get<ClassAgreement>(Agree(flat, baseline)).kl_divergence,
              0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-6);
  EXPECT_NEAR(std::get<ClassAgreement>(Agree(baseline, flat)).kl_divergence,
              0.5 * std::log(2 / 3.0) + 0.5 * std::log(2.0), 1e-6);
  const std::vector<Results> fewer = {Classes({{0, 0}})};
  EXPECT_TRUE(std::isinf(std::get<ClassAgreement>(Agree(fewer, baseline)).kl_divergence));
}

// Classes that are each there or not: 3/4 and 1/2 against 1/2 and 1/2.
TEST(AgreeTest, ClassesOfSigmoidsDivergeOneByOne) {
  const std::vector<Results> baseline = {Classes({{0, kThrice}, {1, 0}})};
  const std::vector<Results> flat = {Classes({{0, 0}, {1, 0}})};
  constexpr auto kSigmoid = ClassConfidence::kSigmoid;
  const double of_the_first = 0.75 * std::log(1.5) + 0.25 * std::log(0.5);
  const auto both =
      std::get<ClassAgreement>(Agree(flat, baseline, {.results = kSigmoid, .baseline = kSigmoid}));
  EXPECT_NEAR(both.kl_divergence, of_the_first / 2, 1e-6);
  EXPECT_NEAR(both.max_confidence_difference, 0.25, 1e-6);
  // A softmax of 1/2 and 1/2 beside the sigmoids: its shares are what it says of each class.
  const auto mixed = std::get<ClassAgreement>(Agree(flat, baseline, {.baseline = kSigmoid}));
  EXPECT_NEAR(mixed.kl_divergence, of_the_first / 2, 1e-6);
  // Two models that are sure of the same, and of opposites.
  const std::vector<Results> sure = {Classes({{0, 800}})}, against = {Classes({{0, -800}})};
  const auto divergence = [&](const std::vector<Results>& results) {
    return std::get<ClassAgreement>(
               Agree(results, sure, {.results = kSigmoid, .baseline = kSigmoid}))
        .kl_divergence;
  };
  EXPECT_EQ(divergence(sure), 0);
  EXPECT_NEAR(divergence(against), 800, 1e-6);
}

TEST(AgreeTest, LooksAtTheFiveBestClasses) {
  std::vector<std::pair<int, float>> logits;
  for (int i = 0; i < 10; ++i) logits.emplace_back(i, 10.0f - i);
  auto other = logits;
  std::swap(other[0], other[1]);  // the same five
  std::swap(other[4], other[9]);  // four of five
  EXPECT_DOUBLE_EQ(
      std::get<ClassAgreement>(Agree(std::vector{Classes(other)}, std::vector{Classes(logits)}))
          .top5_overlap,
      0.8);
}

Detection Object(int index, const Box& box, float score) {
  return {.box = box, .score = score, .class_index = index};
}

Results Objects(std::vector<Detection> detections) {
  return DetectResults{{.detections = std::move(detections), .image = {10, 10}}};
}

TEST(AgreeTest, ObjectsMatchOncePerClassByTheirBoxes) {
  const std::vector<Results> baseline = {
      Objects({Object(0, {0, 0, 4, 4}, 0.9f), Object(1, {5, 5, 9, 9}, 0.5f)})};
  const std::vector<Results> found = {
      Objects({Object(0, {0, 0, 4, 3}, 0.7f),     // three quarters of the first
               Object(0, {0, 0, 4, 4}, 0.6f),     // which is taken
               Object(2, {5, 5, 9, 9}, 0.5f)})};  // of another class
  const auto agreement = std::get<ObjectAgreement>(Agree(found, baseline));
  EXPECT_EQ(agreement.baseline_objects, 2);
  EXPECT_EQ(agreement.objects, 3);
  EXPECT_EQ(agreement.matched, 1);
  EXPECT_DOUBLE_EQ(agreement.mean_box_iou, 0.75);
  EXPECT_NEAR(agreement.mean_score_difference, 0.2, 1e-6);
  EXPECT_EQ(agreement.mean_mask_iou, std::nullopt);
}

TEST(AgreeTest, TheSameBoxMatchesWithoutAnAreaToo) {
  const std::vector<Results> found = {Objects({Object(0, {3, 3, 3, 9}, 0.9f)})};
  EXPECT_EQ(std::get<ObjectAgreement>(Agree(found, found)).matched, 1);
}

TEST(AgreeTest, ObjectsThatOverlapByLessThanHalfDoNotMatch) {
  const std::vector<Results> baseline = {Objects({Object(0, {0, 0, 4, 4}, 0.9f)})};
  const std::vector<Results> apart = {Objects({Object(0, {2, 0, 6, 4}, 0.9f)})};
  EXPECT_EQ(std::get<ObjectAgreement>(Agree(apart, baseline)).matched, 0);
}

// A mask of a picture of 10 x 10 pixels, column by column.
std::string Runs(const std::vector<std::pair<bool, int>>& runs) {
  RunLengths lengths;
  for (const auto& [of_mask, pixels] : runs) lengths.Add(of_mask, pixels);
  return lengths.Text();
}

TEST(AgreeTest, MasksOfMatchingObjectsAreCompared) {
  const auto with_mask = [](const std::string& runs) {
    Detection object = Object(0, {0, 0, 4, 4}, 0.9f);
    object.mask = InstanceMask{.run_lengths = runs};
    return std::vector<Results>{Objects({object})};
  };
  const auto agreement =
      std::get<ObjectAgreement>(Agree(with_mask(Runs({{false, 10}, {true, 10}, {false, 80}})),
                                      with_mask(Runs({{false, 10}, {true, 20}, {false, 70}}))));
  EXPECT_EQ(agreement.mean_mask_iou, 0.5);
}

TEST(AgreeTest, MapsAgreeByPixelsAndByClasses) {
  const auto map = [](std::vector<ClassArea> classes) {
    return std::vector<Results>{SegmentResults{{.image = {10, 10}, .classes = std::move(classes)}}};
  };
  const auto baseline = map({{.class_index = 0, .run_lengths = Runs({{true, 60}, {false, 40}})},
                             {.class_index = 1, .run_lengths = Runs({{false, 60}, {true, 40}})}});
  const auto found =
      map({{.class_index = 0, .run_lengths = Runs({{true, 50}, {false, 50}})},
           {.class_index = 1, .run_lengths = Runs({{false, 60}, {true, 40}})},
           {.class_index = 2, .run_lengths = Runs({{false, 50}, {true, 10}, {false, 40}})}});
  const auto agreement = std::get<MapAgreement>(Agree(found, baseline));
  EXPECT_DOUBLE_EQ(agreement.same_pixels, 0.9);
  EXPECT_DOUBLE_EQ(agreement.mean_iou, (50.0 / 60 + 1 + 0) / 3);
  EXPECT_DOUBLE_EQ(std::get<MapAgreement>(Agree(baseline, baseline)).mean_iou, 1);
}

}  // namespace
}  // namespace fovea
