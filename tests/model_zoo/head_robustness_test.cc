// What heads and networks may give that is not as usual: nothing, a thousand objects, equal scores,
// boxes without area, numbers that are none (docs/faults.md, row 59).
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/memory/memory_ledger.h"
#include "model_zoo/heads/anchors.h"
#include "model_zoo/heads/detections.h"
#include "model_zoo/heads/region_features.h"
#include "model_zoo/heads/region_proposals.h"
#include "model_zoo/registry/heads.h"

namespace fovea::models {
namespace {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int64_t> Integers(const at::Tensor& tensor) {
  const at::Tensor all = tensor.contiguous();
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}
at::Tensor Boxes(const std::vector<float>& numbers) {
  return at::tensor(numbers, at::kFloat).view({-1, 4});
}

TEST(BestFirstTest, EqualScoresComeByTheirPlace) {
  EXPECT_THAT(Integers(BestFirst(at::full({5000}, 0.25F), 3)), ElementsAre(0, 1, 2));
  const at::Tensor scores = at::tensor({0.1F, 0.5F, 0.2F, 0.5F, 0.2F, 0.2F});
  EXPECT_THAT(Integers(BestFirst(scores, 4)), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(Integers(BestFirst(scores, 9)), ElementsAre(1, 3, 2, 4, 5, 0));
  EXPECT_TRUE(Integers(BestFirst(at::empty({0}), 4)).empty());
}

TEST(BestFirstTest, WhatIsNoNumberComesBeforeAll) {
  const at::Tensor scores = at::tensor({0.1F, kNan, kInfinity, kNan, 0.3F, -kInfinity});
  EXPECT_THAT(Integers(BestFirst(scores, 4)), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(Integers(BestFirst(scores, 1)), ElementsAre(1));
  EXPECT_THAT(Integers(BestFirst(scores, 6)), ElementsAre(1, 3, 2, 4, 0, 5));
}

// The logits are looked at in pieces; the choice does not depend on where one ends.
TEST(BestAboveTest, ChoosesFromManyLogitsAsFromAllAtOnce) {
  // Of 100 values, so that equal ones lie on both sides of every border.
  const at::Tensor logits = at::arange(700'000).mul(7919).remainder(100).to(at::kFloat) / 10 - 5;
  for (const double threshold : {0.0, 0.9}) {
    const BestScores found = BestAbove(logits, threshold, 20'000);
    const at::Tensor all = logits.sigmoid();
    const at::Tensor expected = BestFirst(all, 20'000);
    EXPECT_TRUE(at::equal(found.indices, expected));
    EXPECT_TRUE(at::equal(found.scores, all.index_select(0, expected)));
  }
  const BestScores few = BestAbove(logits, logits.sigmoid().max().item<double>() - 1e-4, 20'000);
  EXPECT_EQ(few.indices.size(0), 7'000) << "all that are above the threshold, and no more";
}

TEST(BestAboveTest, OfNoneThereIsNone) {
  EXPECT_EQ(BestAbove(at::empty({0}), 0.5, 9).scores.size(0), 0);
  EXPECT_EQ(BestAbove(at::full({600'000}, -3.F), 0.5, 9).indices.size(0), 0);
}

TEST(BestAboveTest, WhatIsNoNumberPassesAndComesFirst) {
  at::Tensor logits = at::full({600'000}, -3.F);
  logits[599'999] = kNan;
  logits[5] = 2;
  EXPECT_THAT(Integers(BestAbove(logits, 0.5, 9).indices), ElementsAre(599'999, 5));
}

TEST(BestAboveTest, HoldsFewMegabytesHoweverManyPass) {
  const at::Tensor logits = at::zeros({12'000'000});
  const kernels::MemoryLedger ledger;
  BestAbove(logits, 0, 1000);
  EXPECT_LT(ledger.peak_bytes(), 16 << 20) << "of 48 MB of logits";
}

class SelectionTest : public testing::TestWithParam<Conventions> {
 protected:
  std::vector<at::Tensor> Select(const at::Tensor& boxes, const at::Tensor& scores) const {
    return SelectDetections({boxes, scores, at::zeros({scores.size(0)}, at::kLong)},
                            {.height = 400, .width = 400},
                            {.conventions = GetParam(), .detections_per_image = 1000});
  }
};

INSTANTIATE_TEST_SUITE_P(Both, SelectionTest,
                         testing::Values(Conventions::kTorchvision, Conventions::kMmdetection));

TEST_P(SelectionTest, AThousandObjectsAreReportedInOrder) {
  const at::Tensor place = at::arange(1200, at::kFloat);
  const at::Tensor x = place.remainder(40) * 10, y = place.div(40, "floor") * 10;
  const at::Tensor boxes = at::stack({x, y, x + 8, y + 8}, 1);
  const auto found = Select(boxes, 1 - place / 2000);
  EXPECT_EQ(found[3].item<int64_t>(), 1000);
  EXPECT_TRUE(at::equal(found[0], boxes.slice(0, 0, 1000)));
}

// As with thousands of classes and a low threshold: what is suppressed of the first ones makes
// room for later ones.
TEST_P(SelectionTest, OfManyCandidatesTheBestThatAreKeptAreThoseOfAll) {
  constexpr int64_t kMany = 60'000;
  const at::Tensor place = at::arange(kMany, at::kLong);
  const at::Tensor x = place.remainder(40).to(at::kFloat) * 10,
                   y = place.div(40, "floor").remainder(40).to(at::kFloat) * 10;
  // Of class 0 30,000 at one place; behind them each further class has one at each of 1,600 places.
  at::Tensor boxes = at::stack({x, y, x + 8, y + 8}, 1);
  at::Tensor labels = place.div(1600, "floor") + 1;
  labels.slice(0, 0, kMany / 2).zero_();
  boxes.slice(0, 0, kMany / 2).copy_(at::tensor({10.F, 10.F, 20.F, 20.F}));
  const at::Tensor scores = 1 - place.to(at::kFloat) / (2 * kMany);
  const auto found = SelectDetections({boxes, scores, labels}, {.height = 400, .width = 400},
                                      {.conventions = GetParam(), .detections_per_image = 700});
  // The best of class 0, and the first ones of the others, none of which overlap.
  ASSERT_EQ(found[3].item<int64_t>(), 700);
  const at::Tensor expected =
      at::cat({at::zeros({1}, at::kLong), at::arange(kMany / 2, kMany / 2 + 699, at::kLong)});
  EXPECT_TRUE(at::equal(found[0], boxes.index_select(0, expected)));
  EXPECT_TRUE(at::equal(found[1], scores.index_select(0, expected)));
  EXPECT_TRUE(at::equal(found[2], labels.index_select(0, expected)));
}

TEST_P(SelectionTest, WithEqualScoresTheFirstStay) {
  const at::Tensor place = at::arange(1200, at::kFloat);
  const at::Tensor x = place.remainder(40) * 10, y = place.div(40, "floor") * 10;
  const at::Tensor boxes = at::stack({x, y, x + 8, y + 8}, 1);
  const auto found = Select(boxes, at::full({1200}, 0.5F));
  EXPECT_TRUE(at::equal(found[0], boxes.slice(0, 0, 1000)));
}

TEST_P(SelectionTest, ReversedBoxesAreNone) {
  const auto found = Select(Boxes({30, 5, 20, 9, 5, 30, 9, 20, 9, 9, 2, 2, 40, 40, 50, 50}),
                            at::tensor({0.9F, 0.8F, 0.7F, 0.6F}));
  EXPECT_EQ(found[3].item<int64_t>(), 1);
  EXPECT_TRUE(at::equal(found[0][0], at::tensor({40.F, 40.F, 50.F, 50.F})));
}

TEST_P(SelectionTest, InfiniteBoxesEndWhereThePictureDoes) {
  const auto found = Select(Boxes({-kInfinity, -kInfinity, kInfinity, kInfinity}), at::ones({1}));
  EXPECT_EQ(found[3].item<int64_t>(), 1);
  EXPECT_TRUE(at::equal(found[0][0], at::tensor({0.F, 0.F, 400.F, 400.F})));
}

TEST_P(SelectionTest, ABoxThatIsNoNumberIsSeen) {
  const auto found = Select(Boxes({0, 0, 9, 9, 0, kNan, 9, 9, 0, 0, 9, kNan, 50, 50, 60, 60}),
                            at::tensor({0.9F, 0.8F, 0.7F, 0.6F}));
  EXPECT_EQ(found[3].item<int64_t>(), 1);
  EXPECT_TRUE(found[0][0].isnan().any().item<bool>());
  // But not where there is nothing.
  const auto nothing = Select(Boxes({0, kNan, 9, 9}), at::full({1}, -1.F));
  EXPECT_EQ(nothing[3].item<int64_t>(), 0);
}

TEST_P(SelectionTest, InfiniteDeltasGiveBoxesWithinBounds) {
  const at::Tensor reference = Boxes({100, 100, 120, 140});
  for (const float delta : {kInfinity, -kInfinity, 1e30F, -1e30F}) {
    for (int64_t i = 0; i < 4; ++i) {
      const at::Tensor deltas = at::zeros({1, 4});
      deltas[0][i] = delta;
      const at::Tensor box = DecodeBoxes(deltas, reference, {10, 10, 5, 5}, GetParam());
      const auto found = Select(box, at::ones({1}));
      EXPECT_FALSE(found[0].isnan().any().item<bool>());
      EXPECT_LE(found[0].max().item<float>(), 400);
      EXPECT_GE(found[0].min().item<float>(), 0);
    }
  }
}

TEST(RegionFeaturesTest, BoxesThatAreNoneHaveNoMapOrTheFinest) {
  const std::vector<int64_t> strides = {4, 8, 16, 32};
  const at::Tensor boxes =
      Boxes({0, 0, 0, 50, 9, 9, 2, 2, 9, 9, 2, 20, 0, 0, 300, 300, 0, kNan, 9, 9});
  EXPECT_THAT(Integers(LevelsOf(boxes, strides)), ElementsAre(0, 0, 0, 2, -1));
  std::vector<at::Tensor> pyramid;
  for (const int64_t stride : strides) {
    pyramid.push_back(at::ones({1, 3, 320 / stride, 320 / stride}));
  }
  for (const auto conventions : {Conventions::kTorchvision, Conventions::kMmdetection}) {
    const at::Tensor features = RegionFeatures(pyramid, strides, {boxes}, 7, conventions);
    EXPECT_FALSE(features.slice(0, 0, 4).isnan().any().item<bool>());
    EXPECT_TRUE(features[4].isnan().all().item<bool>());
  }
}

// A head on maps of a small input, its parameters zero.
struct ZeroHead {
  ZeroHead(const std::string& name, Conventions conventions, double threshold) {
    ModelInfo backbone;
    backbone.image_height = 64;
    backbone.image_width = 96;
    for (const int64_t stride : {4, 8, 16, 32}) {
      backbone.features.push_back({8, stride});
      maps.push_back(at::randn({1, 8, 64 / stride, 96 / stride}));
    }
    head = std::ranges::find(Heads(), name, &HeadEntry::name)
               ->make({.backbone = backbone,
                       .num_classes = 4,
                       .detection = {.conventions = conventions, .score_threshold = threshold},
                       .channels = 32});
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : head->parameters()) parameter.zero_();
    for (at::Tensor& buffer : head->buffers()) buffer.fill_(1);
    head->eval();
  }

  void Set(const std::string& parameter, float value) const {
    const at::NoGradGuard no_grad;
    at::Tensor found = head->named_parameters()[parameter];
    found.fill_(value);
  }
  std::vector<at::Tensor> Run() const {
    const at::NoGradGuard no_grad;
    ForwardContext context;
    return head->Finish(head->forward(maps, context), std::array{ImageSize{64, 96}});
  }

  std::shared_ptr<Head> head;
  std::vector<at::Tensor> maps;
};

struct Detector {
  const char* name;
  Conventions conventions;
  const char* scores;  // the bias of what gives scores
  const char* boxes;
};

class DetectorsTest : public testing::TestWithParam<Detector> {};

INSTANTIATE_TEST_SUITE_P(
    All, DetectorsTest,
    testing::Values(
        Detector{"retinanet", Conventions::kTorchvision, "classification_head.cls_logits.bias",
                 "regression_head.bbox_reg.bias"},
        Detector{"retinanet", Conventions::kMmdetection, "classification_head.cls_logits.bias",
                 "regression_head.bbox_reg.bias"},
        Detector{"mask_rcnn", Conventions::kTorchvision, "roi_heads.box_predictor.cls_score.bias",
                 "roi_heads.box_predictor.bbox_pred.bias"},
        Detector{"mask_rcnn", Conventions::kMmdetection, "roi_heads.box_predictor.cls_score.bias",
                 "roi_heads.box_predictor.bbox_pred.bias"},
        Detector{"cascade_mask_rcnn", Conventions::kMmdetection,
                 "roi_heads.box_predictor.0.cls_score.bias",
                 "roi_heads.box_predictor.0.bbox_pred.bias"}),
    [](const auto& info) {
      return std::string(info.param.name) + (info.param.conventions == Conventions::kTorchvision
                                                 ? "_torchvision"
                                                 : "_mmdetection");
    });

TEST_P(DetectorsTest, NothingAboveTheThresholdIsEmpty) {
  const ZeroHead zero(GetParam().name, GetParam().conventions, 0.9);
  for (const at::Tensor& output : zero.Run()) EXPECT_FALSE(output.any().item<bool>());
}

TEST_P(DetectorsTest, WithEqualScoresTheAnswerIsTheSameEachTime) {
  const ZeroHead zero(GetParam().name, GetParam().conventions, 0.05);
  const std::vector<at::Tensor> first = zero.Run(), second = zero.Run();
  EXPECT_GT(first[3].item<int64_t>(), 10);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i])) << i;
  EXPECT_GE(first[0].min().item<float>(), 0);
}

TEST_P(DetectorsTest, ScoresThatAreNoNumbersAreSeen) {
  const ZeroHead zero(GetParam().name, GetParam().conventions, 0.05);
  zero.Set(GetParam().scores, kNan);
  const std::vector<at::Tensor> found = zero.Run();
  EXPECT_EQ(found[3].item<int64_t>(), 1);
  EXPECT_TRUE(std::isnan(found[1][0][0].item<float>()));
}

TEST_P(DetectorsTest, DeltasThatAreNoNumbersAreSeen) {
  const ZeroHead zero(GetParam().name, GetParam().conventions, 0.05);
  zero.Set(GetParam().boxes, kNan);
  const std::vector<at::Tensor> found = zero.Run();
  EXPECT_EQ(found[3].item<int64_t>(), 1);
  EXPECT_TRUE(found[0][0][0].isnan().any().item<bool>() || found[1][0][0].isnan().item<bool>());
}

TEST_P(DetectorsTest, InfiniteDeltasGiveNumbers) {
  for (const float delta : {kInfinity, -kInfinity}) {
    const ZeroHead zero(GetParam().name, GetParam().conventions, 0.05);
    zero.Set(GetParam().boxes, delta);
    for (const at::Tensor& output : zero.Run()) EXPECT_FALSE(output.isnan().any().item<bool>());
  }
}

}  // namespace
}  // namespace fovea::models
