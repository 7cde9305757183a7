// Heads that are narrower than published, for models of a few megabytes.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/heads.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using testing::HasSubstr;

constexpr int64_t kClasses = 5;
const std::vector<int64_t> kMaps = {8, 16, 24, 40};  // channels of a backbone

HeadEntry Entry(const std::string& name) {
  return *std::ranges::find(Heads(), name, &HeadEntry::name);
}

std::shared_ptr<Head> Made(const std::string& name, int64_t channels,
                           Conventions conventions = Conventions::kMmdetection,
                           int64_t classes = kClasses) {
  ModelInfo backbone;
  backbone.image_height = backbone.image_width = 64;
  for (size_t i = 0; i < kMaps.size(); ++i) backbone.features.push_back({kMaps[i], 4L << i});
  return Entry(name).make({.backbone = backbone,
                           .num_classes = classes,
                           .detection = {.conventions = conventions},
                           .channels = channels});
}

int64_t ParametersOf(const Head& head) {
  int64_t all = 0;
  for (const at::Tensor& parameter : head.parameters()) all += parameter.numel();
  return all;
}

// Parameters of a convolution with a bias, and of one with a norm.
int64_t Conv(int64_t in, int64_t out, int64_t side) { return in * out * side * side + out; }
int64_t Normed(int64_t in, int64_t out, int64_t side) { return in * out * side * side + 2 * out; }
int64_t Linear(int64_t in, int64_t out) { return in * out + out; }

int64_t Pyramid(int64_t width, size_t maps) {
  int64_t all = 0;
  for (size_t i = kMaps.size() - maps; i < kMaps.size(); ++i) {
    all += Conv(kMaps[i], width, 1) + Conv(width, width, 3);
  }
  return all;
}

int64_t RetinaNet(int64_t c, bool normed) {
  constexpr int64_t kAnchors = 9;
  return Pyramid(c, 3) + Conv(kMaps.back(), c, 3) + Conv(c, c, 3) +
         8 * (normed ? Normed(c, c, 3) : Conv(c, c, 3)) + Conv(c, kAnchors * kClasses, 3) +
         Conv(c, kAnchors * 4, 3);
}

int64_t MaskRcnn(int64_t c) {
  const int64_t proposals = Conv(c, c, 3) + Conv(c, 3, 1) + Conv(c, 12, 1);
  const int64_t boxes = Linear(49 * c, 4 * c) + Linear(4 * c, 4 * c) + Linear(4 * c, kClasses + 1) +
                        Linear(4 * c, 4 * kClasses);
  const int64_t masks = 4 * Conv(c, c, 3) + Conv(c, c, 2) + Conv(c, kClasses, 1);
  return Pyramid(c, 4) + proposals + boxes + masks;
}

int64_t UperNet(int64_t c) {
  int64_t laterals = 0;
  for (size_t i = 0; i < 3; ++i) laterals += Normed(kMaps[i], c, 1);
  return 4 * Normed(kMaps[3], c, 1) + Normed(kMaps[3] + 4 * c, c, 3) + laterals +
         3 * Normed(c, c, 3) + Normed(4 * c, c, 3) + Conv(c, kClasses, 1);
}

// None, one, two and three doublings: a convolution at least.
int64_t SemanticFpn(int64_t c) {
  return Pyramid(c, 4) + 4 * Normed(c, c / 2, 3) + 3 * Normed(c / 2, c / 2, 3) +
         Conv(c / 2, kClasses, 1);
}

TEST(HeadWidthsTest, ParametersFollowFromTheChannels) {
  for (const int64_t channels : {32, 96}) {
    SCOPED_TRACE(channels);
    EXPECT_EQ(ParametersOf(*Made("retinanet", channels)), RetinaNet(channels, false));
    EXPECT_EQ(ParametersOf(*Made("retinanet", channels, Conventions::kTorchvision)),
              RetinaNet(channels, true));
    EXPECT_EQ(ParametersOf(*Made("mask_rcnn", channels)), MaskRcnn(channels));
    EXPECT_EQ(ParametersOf(*Made("upernet", channels)), UperNet(channels));
    EXPECT_EQ(ParametersOf(*Made("semantic_fpn", channels)), SemanticFpn(channels));
  }
}

TEST(HeadWidthsTest, WithoutANumberTheyAreThePublishedOnes) {
  EXPECT_EQ(ParametersOf(*Made("retinanet", 0)), RetinaNet(256, false));
  EXPECT_EQ(ParametersOf(*Made("mask_rcnn", 0)), MaskRcnn(256));
  EXPECT_EQ(ParametersOf(*Made("upernet", 0)), UperNet(512));
  EXPECT_EQ(ParametersOf(*Made("semantic_fpn", 0)), SemanticFpn(256));
}

TEST(HeadWidthsTest, ANarrowHeadRuns) {
  for (const HeadEntry& head : Heads()) {
    if (head.make == nullptr) continue;
    SCOPED_TRACE(head.name);
    ModelDescription description{.backbone = "demo_frame_64",
                                 .task = head.task,
                                 .head = head.name,
                                 .num_classes = kClasses,
                                 .random_weights_seed = 1};
    description.detection.conventions = Conventions::kMmdetection;
    description.head_channels = 24;
    const std::unique_ptr<Model> model = LoadModel(description);
    model->Prepare(at::kCPU, Precision::kFp32);
    const ModelInfo& info = model->info();
    const at::Tensor pixels = at::randn({1, 3, info.image_height, info.image_width},
                                        at::make_generator<at::CPUGeneratorImpl>(1));
    ForwardContext context;
    const std::vector<at::Tensor> outputs = model->Run(pixels, context);
    ASSERT_EQ(outputs.size(), info.outputs.size());
    for (const at::Tensor& output : outputs) EXPECT_FALSE(output.isnan().any().item<bool>());
    description.head_channels = 0;
    EXPECT_LT(info.parameters, LoadModel(description)->info().parameters);
  }
}

TEST(HeadWidthsTest, WhatCannotBeIsRefusedInWords) {
  EXPECT_THAT(ErrorOf([] { Made("retinanet", 48, Conventions::kTorchvision); }),
              HasSubstr("norms of 32 groups: its channels are a multiple of that, not 48"));
  EXPECT_THAT(ErrorOf([] { Made("semantic_fpn", 33); }),
              HasSubstr("half of its pyramid's channels: their number is even, not 33"));
  for (const HeadEntry& head : Heads()) {
    if (head.make == nullptr) continue;
    for (const int64_t channels : {int64_t{-1}, kMostHeadChannels + 1}) {
      EXPECT_THAT(ErrorOf([&] { Made(head.name, channels); }),
                  HasSubstr("a head has 1 to 1024 channels, not " + std::to_string(channels)));
    }
  }
  ModelDescription classifier{.backbone = "vit_demo_patch8_64", .random_weights_seed = 1};
  classifier.head_channels = 64;
  EXPECT_THAT(ErrorOf([&] { LoadModel(classifier); }),
              HasSubstr("a classifier is as wide as its backbone"));
}

}  // namespace
}  // namespace fovea::models
