// The parts of a detector that have no weights: anchors, the coding of boxes, what is reported.
#include "model_zoo/heads/detections.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "model_zoo/heads/anchors.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Numbers(const at::Tensor& tensor) {
  const at::Tensor all = tensor.to(at::kFloat).contiguous();
  return {all.const_data_ptr<float>(), all.const_data_ptr<float>() + all.numel()};
}

at::Tensor Boxes(const std::vector<float>& numbers) {
  return at::tensor(numbers, at::kFloat).view({-1, 4});
}

TEST(AnchorsTest, LieAroundEachPlaceByRatioThenSize) {
  const Anchors anchors(AnchorShapes({8, 16}, {0.25, 1}, Conventions::kTorchvision), {10, 20},
                        /*map_width=*/3);
  EXPECT_EQ(anchors.at_each_place(), 4);
  // Half as high and twice as wide as the size, at the first place.
  EXPECT_THAT(Numbers(anchors.Boxes(at::tensor({0, 1}, at::kLong))),
              ElementsAre(-8, -2, 8, 2, -16, -4, 16, 4));
  // Place 5 is the last of the second row; its third anchor is the small square.
  EXPECT_THAT(Numbers(anchors.Boxes(at::tensor({5 * 4 + 2}, at::kLong))),
              ElementsAre(36, 6, 44, 14));
}

TEST(AnchorsTest, OnlyTorchvisionsAreWholePixels) {
  const auto first = [](Conventions conventions) {
    return Numbers(
        Anchors(AnchorShapes({9}, {1}, conventions), {1, 1}, 1).Boxes(at::zeros({1}, at::kLong)));
  };
  EXPECT_THAT(first(Conventions::kMmdetection), ElementsAre(-4.5, -4.5, 4.5, 4.5));
  EXPECT_THAT(first(Conventions::kTorchvision), ElementsAre(-4, -4, 4, 4));  // half to even
}

TEST(DecodeBoxesTest, MovesCentresAndScalesSides) {
  const at::Tensor deltas = Boxes({1, -2, 0, 0, 0, 0, std::log(2.0F), std::log(4.0F)});
  const at::Tensor references = Boxes({0, 0, 10, 20, 0, 0, 10, 20});
  const std::vector<float> decoded =
      Numbers(DecodeBoxes(deltas, references, {2, 4, 1, 2}, Conventions::kTorchvision));
  const std::vector<float> expected = {5, -10, 15, 10, -5, -10, 15, 30};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(decoded[i], expected[i], 1e-5) << i;
}

TEST(DecodeBoxesTest, FactorsAreBounded) {
  const at::Tensor references = Boxes({-8, -8, 8, 8});
  const auto width = [&](float delta, Conventions conventions) {
    const at::Tensor box =
        DecodeBoxes(Boxes({0, 0, delta, 0}), references, {1, 1, 1, 1}, conventions);
    return (box.select(1, 2) - box.select(1, 0)).item<float>();
  };
  for (const auto conventions : {Conventions::kTorchvision, Conventions::kMmdetection}) {
    EXPECT_NEAR(width(100, conventions), 1000, 1e-2);
  }
  EXPECT_NEAR(width(-100, Conventions::kMmdetection), 16 * 16 / 1000.0, 1e-5);
  EXPECT_EQ(width(-1000, Conventions::kTorchvision), 0);
}

TEST(DetectionOptionsTest, WhatMakesNoSenseIsRefusedInWords) {
  EXPECT_NO_THROW(CheckDetectionOptions({.score_threshold = 0, .nms_iou = 1}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double score : {-0.1, 1.0, nan}) {
    EXPECT_THAT(ErrorOf([&] { CheckDetectionOptions({.score_threshold = score}); }),
                HasSubstr("a score threshold lies in [0, 1), not at "));
  }
  for (const double iou : {-0.1, 1.1, nan}) {
    EXPECT_THAT(ErrorOf([&] { CheckDetectionOptions({.nms_iou = iou}); }),
                HasSubstr("an intersection over union lies in [0, 1], not at "));
  }
  EXPECT_EQ(ErrorOf([] { CheckDetectionOptions({.detections_per_image = -1}); }),
            "an image has no -1 detections");
}

class SelectDetectionsTest : public ::testing::Test {
 protected:
  std::vector<at::Tensor> Select(const std::vector<float>& boxes, const std::vector<float>& scores,
                                 const std::vector<int64_t>& labels) {
    return SelectDetections(
        {Boxes(boxes), at::tensor(scores, at::kFloat), at::tensor(labels, at::kLong)}, content_,
        options_);
  }

  ImageSize content_{.height = 100, .width = 200};
  DetectionOptions options_{.detections_per_image = 3};
};

TEST_F(SelectDetectionsTest, OfOverlappingBoxesOfOneClassTheBestStays) {
  const auto found = Select({0, 0, 10, 10, 0, 0, 10, 9, 0, 0, 10, 9, 50, 50, 60, 60},
                            {0.5, 0.9, 0.4, 0.1}, {1, 1, 2, 1});
  EXPECT_EQ(found[3].item<int64_t>(), 3);
  EXPECT_THAT(Numbers(found[1]), ElementsAre(0.9F, 0.4F, 0.1F));
  EXPECT_THAT(Numbers(found[2]), ElementsAre(1, 2, 1));
  EXPECT_THAT(Numbers(found[0]), ElementsAre(0, 0, 10, 9, 0, 0, 10, 9, 50, 50, 60, 60));
}

TEST_F(SelectDetectionsTest, OneScoreThatIsNoNumberStandsForAll) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto found =
      Select({0, 0, 10, 10, 20, 20, 30, 30, nan, 0, 9, 9}, {0.5, nan, nan}, {1, 1, 1});
  EXPECT_EQ(found[3].item<int64_t>(), 1);
  EXPECT_TRUE(std::isnan(found[1][0].item<float>()));
}

TEST_F(SelectDetectionsTest, ClassesFarApartDoNotMeet) {
  // By classes, in fp32, places this far out would be 1/16 of a pixel apart.
  const int64_t far = 9'999;
  const auto found =
      Select({0, 0, 1, 1, 0, 0, 1, 0.49, 0, 0, 1, 1}, {0.9, 0.8, 0.7}, {far, far, 0});
  EXPECT_EQ(found[3].item<int64_t>(), 3) << "0.49 of a pixel is less than half of it";
}

TEST_F(SelectDetectionsTest, BoxesEndWhereThePictureDoes) {
  const auto found = Select({-5, -5, 300, 300}, {0.9}, {0});
  EXPECT_THAT(Numbers(found[0].narrow(0, 0, 1)), ElementsAre(0, 0, 200, 100));
}

TEST_F(SelectDetectionsTest, BoxesThatDifferOutsideOfThePictureOnlyAreOne) {
  EXPECT_EQ(Select({150, 0, 200, 100, 150, 0, 900, 100}, {0.9, 0.8}, {0, 0})[3].item<int64_t>(), 1);
}

TEST_F(SelectDetectionsTest, NoMoreThanTheMostAreReportedAndTheBestOfThem) {
  const auto found = Select({0, 0, 1, 1, 10, 0, 11, 1, 20, 0, 21, 1, 30, 0, 31, 1},
                            {0.1, 0.4, 0.3, 0.2}, {0, 0, 0, 0});
  EXPECT_EQ(found[3].item<int64_t>(), 3);
  EXPECT_THAT(Numbers(found[1]), ElementsAre(0.4F, 0.3F, 0.2F));
}

TEST_F(SelectDetectionsTest, EqualScoresKeepTheirOrder) {
  const auto found = Select({20, 0, 21, 1, 10, 0, 11, 1, 0, 0, 1, 1}, {0.5, 0.5, 0.5}, {2, 0, 1});
  EXPECT_THAT(Numbers(found[2]), ElementsAre(2, 0, 1));
}

TEST_F(SelectDetectionsTest, NothingFoundIsEmpty) {
  for (const auto& found : {Select({}, {}, {}), Select({0, 0, 9, 9}, {-1}, {7})}) {
    EXPECT_EQ(found[3].item<int64_t>(), 0);
    EXPECT_EQ(found[0].sizes(), at::IntArrayRef({3, 4}));
    for (const at::Tensor& output : found) EXPECT_FALSE(output.any().item<bool>());
  }
}

TEST_F(SelectDetectionsTest, OnlyMmdetectionDropsBoxesWithoutArea) {
  const std::vector<float> boxes = {5, 5, 5, 9, 30, 9, 20, 5, 40, 40, 50, 50, 500, 0, 600, 9};
  const std::vector<float> scores = {0.9, 0.8, 0.7, 0.6};
  options_.detections_per_image = 10;
  EXPECT_EQ(Select(boxes, scores, {0, 1, 2, 3})[3].item<int64_t>(), 3) << "but reversed ones";
  options_.conventions = Conventions::kMmdetection;
  const auto found = Select(boxes, scores, {0, 1, 2, 3});
  EXPECT_EQ(found[3].item<int64_t>(), 1);
  EXPECT_EQ(found[2][0].item<int64_t>(), 2);
}

TEST_F(SelectDetectionsTest, WhatIsReturnedIsWhatIsDescribed) {
  const auto found = Select({0, 0, 9, 9}, {0.5}, {0});
  const auto described = DetectionOutputs(options_.detections_per_image);
  ASSERT_EQ(found.size(), described.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].sizes(), at::IntArrayRef(described[i].shape)) << described[i].name;
    EXPECT_EQ(found[i].scalar_type() == at::kLong, described[i].type == ElementType::kInt64);
  }
}

TEST(StackedOutputsTest, AreEachOutputOfAllImages) {
  const at::Tensor boxes = Boxes({1, 2, 3, 4}), others = Boxes({5, 6, 7, 8});
  const at::Tensor one = at::scalar_tensor(1, at::kLong), two = at::scalar_tensor(2, at::kLong);
  const std::vector<at::Tensor> stacked = StackedOutputs({{boxes, one}, {others, two}});
  ASSERT_EQ(stacked.size(), 2u);
  EXPECT_EQ(stacked[0].sizes(), at::IntArrayRef({2, 1, 4}));
  EXPECT_THAT(Numbers(stacked[0]), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(Numbers(stacked[1]), ElementsAre(1, 2));
}

}  // namespace
}  // namespace fovea::models
