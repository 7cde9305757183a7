// The losses beside torchvision's, whose numbers and gradients torchvision_losses.py stored, and
// what the stored cases do not show.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model_zoo/heads/region_features.h"
#include "model_zoo/training/losses/anchor_loss.h"
#include "model_zoo/training/losses/box_losses.h"
#include "model_zoo/training/losses/focal_loss.h"
#include "model_zoo/training/losses/matching.h"
#include "model_zoo/training/losses/region_losses.h"
#include "model_zoo/training/losses/segmentation_loss.h"
#include "model_zoo/weights/safetensors.h"

namespace fovea::models::training {
namespace {

class LossesTest : public ::testing::Test {
 protected:
  LossesTest() {
    const SafetensorsFile file(FOVEA_SOURCE_DIR
                               "/tests/model_zoo/training/losses/torchvision_losses.safetensors");
    for (const StoredTensor& tensor : file.tensors()) {
      at::Tensor read = at::empty(tensor.shape);
      file.ReadInto(tensor, read);
      stored_.emplace(tensor.name, read);
    }
  }

  const at::Tensor& Stored(const std::string& name) const { return stored_.at(name); }
  at::Tensor Leaf(const std::string& name) const { return Stored(name).clone().requires_grad_(); }
  at::Tensor Whole(const std::string& name) const { return Stored(name).to(at::kLong); }

  // Both are sums of at most a few hundred FP32 terms, in two orders, of functions that are a few
  // roundings deep: n * u of the largest partial sum, and each of these is at most 10.
  void ExpectStored(const at::Tensor& found, const std::string& name) const {
    const at::Tensor& expected = Stored(name);
    ASSERT_EQ(found.sizes(), expected.sizes()) << name;
    const double largest = std::max(1.0, expected.abs().max().item<double>());
    EXPECT_LE((found.detach() - expected).abs().max().item<double>(), 500 * 0x1p-24 * largest)
        << name;
    EXPECT_GT(expected.abs().max().item<double>(), 0) << name;
  }

  ImageTruth Anchored(int image) const {
    const std::string number = std::to_string(image);
    return {.boxes = Stored("anchors.boxes" + number),
            .labels = Whole("anchors.labels" + number),
            .crowds = at::empty({0, 4})};
  }

 private:
  std::map<std::string, at::Tensor> stored_;
};

TEST_F(LossesTest, TheFocalLossIsTorchvisions) {
  const at::Tensor logits = Leaf("focal.logits");
  const at::Tensor loss = SigmoidFocalLoss(logits, Stored("focal.targets"));
  ExpectStored(loss, "focal.loss");
  loss.sum().backward();
  ExpectStored(logits.grad(), "focal.gradient");
}

TEST_F(LossesTest, TheGiouLossIsTorchvisions) {
  const at::Tensor boxes = Leaf("giou.boxes");
  const at::Tensor loss = GeneralizedIouLoss(boxes, Stored("giou.targets"));
  ExpectStored(loss, "giou.loss");
  loss.sum().backward();
  ExpectStored(boxes.grad(), "giou.gradient");
}

TEST_F(LossesTest, AnchorsMatchAsTorchvisions) {
  for (int image = 0; image < 2; ++image) {
    const at::Tensor matched =
        MatchObjects(Stored("anchors.anchors"), Anchored(image), AnchorLossOptions().match);
    EXPECT_TRUE(at::equal(matched, Whole("anchors.matched")[image])) << image;
  }
}

TEST_F(LossesTest, RetinaNetsLossIsTorchvisions) {
  const AnchorOutputs outputs{.logits = Leaf("retinanet.logits"),
                              .deltas = Leaf("retinanet.deltas"),
                              .anchors = Stored("anchors.anchors")};
  const AnchorLoss loss = LossOfAnchors(outputs, {Anchored(0), Anchored(1)}, {});
  ExpectStored(loss.classification, "retinanet.classification");
  ExpectStored(loss.boxes, "retinanet.boxes");
  (loss.classification + loss.boxes).backward();
  ExpectStored(outputs.logits.grad(), "retinanet.logits_gradient");
  ExpectStored(outputs.deltas.grad(), "retinanet.deltas_gradient");
}

TEST_F(LossesTest, TheLossOfProposalsIsTorchvisions) {
  const at::Tensor logits = Leaf("rpn.logits"), deltas = Leaf("rpn.deltas");
  const AnchorOutputs outputs{.logits = logits.view({2, -1, 1}),
                              .deltas = deltas.view({2, -1, 4}),
                              .anchors = Stored("anchors.anchors")};
  // All that there is to sample, as the stored ones.
  const RegionOptions options{.proposal_sample = {.count = 1200, .foreground_share = 0.5}};
  Random random(1, 0, 0);
  const ProposalLoss loss = LossOfProposals(outputs, {Anchored(0), Anchored(1)}, options, random);
  ExpectStored(loss.objectness, "rpn.objectness");
  ExpectStored(loss.boxes, "rpn.boxes");
  (loss.objectness + loss.boxes).backward();
  ExpectStored(logits.grad(), "rpn.logits_gradient");
  ExpectStored(deltas.grad(), "rpn.deltas_gradient");
}

TEST_F(LossesTest, TheLossesOfRegionsAreTorchvisions) {
  std::vector<ImageTruth> images;
  std::vector<RegionSample> regions;
  for (const std::string number : {"0", "1"}) {
    images.push_back({.boxes = Stored("regions.truth" + number),
                      .labels = Whole("regions.truth_labels" + number),
                      .masks = Stored("regions.masks" + number).to(at::kByte),
                      .crowds = at::empty({0, 4})});
    const at::Tensor objects = Whole("regions.objects" + number);
    regions.push_back({.boxes = Stored("regions.sampled" + number),
                       .objects = objects,
                       .foreground = objects.size(0)});
  }
  const at::Tensor logits = Leaf("regions.logits"), deltas = Leaf("regions.deltas");
  const RegionLoss loss = LossOfRegions(logits, deltas, regions, images, {});
  ExpectStored(loss.classification, "regions.classification");
  ExpectStored(loss.boxes, "regions.boxes");
  (loss.classification + loss.boxes).backward();
  ExpectStored(logits.grad(), "regions.logits_gradient");
  ExpectStored(deltas.grad(), "regions.deltas_gradient");

  const at::Tensor masks = Leaf("masks.logits");  // of all classes
  const at::Tensor labels = ForegroundLabels(regions, images);
  const at::Tensor mask_loss =
      LossOfMasks(masks.index({at::arange(masks.size(0)), labels}), regions, images);
  ExpectStored(mask_loss, "masks.loss");
  mask_loss.backward();
  ExpectStored(masks.grad(), "masks.gradient");
}

TEST_F(LossesTest, DecodingUndoesEncoding) {
  const at::Tensor boxes = Stored("anchors.boxes0"),
                   references = Stored("anchors.anchors").slice(0, 0, boxes.size(0));
  const std::array<double, 4> weights = {10, 10, 5, 5};
  const at::Tensor again = DecodeBoxes(EncodeBoxes(boxes, references, weights), references, weights,
                                       Conventions::kTorchvision);
  // A dozen roundings of numbers below 100.
  EXPECT_LE((again - boxes).abs().max().item<double>(), 100 * 12 * 0x1p-24);
}

TEST(RegionFeaturesTest, TheLearnableOnesAreThoseThatAreServedAndSoIsTheirGradient) {
  const std::vector<int64_t> strides = {4, 8};
  for (const Conventions conventions : {Conventions::kTorchvision, Conventions::kMmdetection}) {
    std::vector<at::Tensor> pyramid[2];
    for (auto& one : pyramid) {
      for (const int64_t side : {16, 8}) {
        one.push_back(at::arange(2 * 3 * side * side, at::kFloat)
                          .mul(0.37f)
                          .sin()
                          .view({2, 3, side, side})
                          .requires_grad_());
      }
    }
    // Of both levels, one over the edge, one thin.
    const std::vector<at::Tensor> boxes = {
        at::tensor({3.3, 4.1, 20.2, 30.7, -5., 10., 70., 11.5, -40., -40., 90., 90.})
            .to(at::kFloat)
            .view({3, 4}),
        at::tensor({10.6, 7.2, 30.1, 12.9}).to(at::kFloat).view({1, 4})};
    const at::Tensor served = RegionFeatures(pyramid[0], strides, boxes, 7, conventions);
    const at::Tensor learnable =
        LearnableRegionFeatures(pyramid[1], strides, boxes, 7, conventions);
    // Sums of at most 32 x 32 terms below 1, whose weights hold positions below 64.
    constexpr double kBound = 64 * 0x1p-24 * 16;
    EXPECT_LE((served - learnable).abs().max().item<double>(), kBound);
    const at::Tensor towards =
        at::arange(served.numel(), at::kFloat).mul(0.7f).cos().view_as(served);
    (served * towards).sum().backward();
    (learnable * towards).sum().backward();
    for (size_t i = 0; i < strides.size(); ++i) {
      const at::Tensor &a = pyramid[0][i].grad(), &b = pyramid[1][i].grad();
      ASSERT_TRUE(a.defined() && b.defined());
      EXPECT_LE((a - b).abs().max().item<double>(), 50 * kBound);
    }
  }
}

ImageTruth Nothing() {
  return {.boxes = at::empty({0, 4}),
          .labels = at::empty({0}, at::kLong),
          .masks = at::empty({0, 8, 8}, at::kByte),
          .crowds = at::empty({0, 4})};
}

TEST(EmptyImageTest, AnImageWithoutObjectsTeachesThatNothingIsThere) {
  const AnchorOutputs outputs{
      .logits = at::zeros({1, 3, 2}).requires_grad_(),
      .deltas = at::zeros({1, 3, 4}).requires_grad_(),
      .anchors = at::tensor({0., 0., 4., 4.}).to(at::kFloat).repeat({3, 1})};
  const AnchorLoss loss = LossOfAnchors(outputs, {Nothing()}, {});
  EXPECT_GT(loss.classification.item<double>(), 0);
  EXPECT_EQ(loss.boxes.item<double>(), 0);
  (loss.classification + loss.boxes).backward();
  EXPECT_TRUE(outputs.logits.grad().gt(0).all().item<bool>());
  EXPECT_TRUE(outputs.deltas.grad().eq(0).all().item<bool>());

  Random random(1, 0, 0);
  const RegionSample sample = SampleRegions(outputs.anchors, Nothing(), {}, random);
  EXPECT_EQ(sample.foreground, 0);
  EXPECT_EQ(sample.boxes.size(0), 3);
  const at::Tensor logits = at::zeros({3, 3}).requires_grad_(), deltas = at::zeros({3, 12});
  const RegionLoss regions = LossOfRegions(logits, deltas, {sample}, {Nothing()}, {});
  EXPECT_NEAR(regions.classification.item<double>(), std::log(3), 1e-6);
  EXPECT_EQ(regions.boxes.item<double>(), 0);
  EXPECT_EQ(LossOfMasks(at::zeros({0, 4, 4}), {sample}, {Nothing()}).item<double>(), 0);
}

TEST(MaskLossTest, EachBoxShowsTheMaskOfItsOwnObject) {
  ImageTruth image = Nothing();
  image.masks = at::zeros({4, 8, 8}, at::kByte);  // the last one, and the second, are of no box
  image.masks[0].fill_(1);
  image.masks[1].fill_(1);
  image.masks[2].slice(1, 0, 4).fill_(1);  // the left half
  const at::Tensor boxes =
      at::tensor({5., 0., 8., 8., 0., 0., 8., 8., 0., 0., 2., 8.}).to(at::kFloat).view({3, 4});
  const at::Tensor shown = MasksWithin(image, at::tensor({2, 0, 2}, at::kLong), boxes, 4, 2);
  ASSERT_EQ(shown.sizes(), at::IntArrayRef({3, 4, 2}));
  EXPECT_TRUE(shown[0].eq(0).all().item<bool>());
  EXPECT_TRUE(shown[1].eq(1).all().item<bool>());
  EXPECT_TRUE(shown[2].eq(1).all().item<bool>());
}

TEST(MatchingTest, AnchorsInACrowdTeachNothing) {
  ImageTruth image = Nothing();
  image.crowds = at::tensor({0., 0., 10., 10.}).to(at::kFloat).view({1, 4});
  const at::Tensor anchors =
      at::tensor({0., 0., 4., 4., 8., 8., 20., 20.}).to(at::kFloat).view({2, 4});
  const at::Tensor matched = MatchObjects(anchors, image, {});
  EXPECT_EQ(matched[0].item<int64_t>(), kBetween);
  EXPECT_EQ(matched[1].item<int64_t>(), kBackground);
}

TEST(MatchingTest, AnObjectThatTouchesNoAnchorTakesNone) {
  const at::Tensor iou = at::zeros({1, 4});
  EXPECT_TRUE(Match(iou, {}).eq(kBackground).all().item<bool>());
}

TEST(MatchingTest, ASampleHoldsNoMoreForegroundThanItsShareAndFillsUpWithBackground) {
  at::Tensor matched = at::full({100}, kBackground, at::kLong);
  matched.slice(0, 0, 30).fill_(2);
  matched.slice(0, 30, 40).fill_(kBetween);
  Random random(7, 0, 0);
  const MatchSample sample =
      SampleMatches(matched, {.count = 20, .foreground_share = 0.25}, random);
  EXPECT_EQ(sample.foreground.size(0), 5);
  EXPECT_EQ(sample.background.size(0), 15);
  EXPECT_TRUE(sample.foreground.lt(30).all().item<bool>());
  EXPECT_TRUE(sample.background.ge(40).all().item<bool>());
  EXPECT_EQ(std::get<0>(at::_unique(sample.background)).size(0), 15);
}

TEST(SegmentationLossTest, IsTheMeanOfTheKnownPixelsAndItsGradientThatOfDifferences) {
  at::Tensor logits =
      at::arange(2 * 3 * 2 * 2, at::kDouble).mul(0.37).sin().to(at::kFloat).view({2, 3, 2, 2});
  at::Tensor classes = at::arange(2 * 4 * 4, at::kLong).remainder(3).view({2, 4, 4}).clone();
  classes[0].select(0, 0).fill_(TrainingBatch::kIgnored);
  logits.requires_grad_();
  const at::Tensor loss = SegmentationLoss(logits, classes);
  loss.backward();
  // By hand, in double.
  const auto in_double = [&](const at::Tensor& of) {
    const at::Tensor up = at::upsample_bilinear2d(of, {4, 4}, false).log_softmax(1);
    const at::Tensor known = classes.ne(TrainingBatch::kIgnored);
    const at::Tensor own = up.gather(1, classes.clamp_min(0).unsqueeze(1)).squeeze(1);
    return -own.masked_select(known).mean().item<double>();
  };
  const at::Tensor exact = logits.detach().to(at::kDouble);
  EXPECT_NEAR(loss.item<double>(), in_double(exact), 50 * 0x1p-24 * 4);
  constexpr double kStep = 1e-4;
  at::Tensor moved = exact.clone();
  for (int64_t i = 0; i < moved.numel(); ++i) {
    moved.view(-1)[i] += kStep;
    const double above = in_double(moved);
    moved.view(-1)[i] -= 2 * kStep;
    const double below = in_double(moved);
    moved.view(-1)[i] += kStep;
    // The difference is off by its third derivative, below 1, times step squared; the gradient by
    // FP32's rounding of some fifty terms below 1.
    EXPECT_NEAR(logits.grad().view(-1)[i].item<double>(), (above - below) / (2 * kStep),
                kStep * kStep + 50 * 0x1p-24);
  }
}

TEST(SegmentationLossTest, OfNothingKnownIsZero) {
  const at::Tensor classes = at::full({1, 4, 4}, TrainingBatch::kIgnored, at::kLong);
  EXPECT_EQ(SegmentationLoss(at::ones({1, 3, 2, 2}), classes).item<double>(), 0);
}

}  // namespace
}  // namespace fovea::models::training
