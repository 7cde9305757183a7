// What heads start from before they are trained.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "model_zoo/registry/load.h"

namespace fovea::models {
namespace {

std::shared_ptr<Backbone> Started(const std::string& head, Task task, Conventions conventions) {
  ModelDescription description{.backbone = "demo_frame_64",
                               .task = task,
                               .head = head,
                               .num_classes = 7,
                               .random_weights_seed = 1};
  description.detection.conventions = conventions;
  return LoadBackbone(description);
}

// The deviation of n normal numbers is off by sigma / sqrt(2 n), of uniform ones by less: five of
// these.
void ExpectDeviation(const Backbone& network, const std::string& parameter, double deviation) {
  const at::Tensor found = network.named_parameters()["head." + parameter];
  const auto count = static_cast<double>(found.numel());
  EXPECT_NEAR(found.std().item<double>(), deviation, 5 * deviation / std::sqrt(2 * count))
      << parameter;
}

void ExpectConstant(const Backbone& network, const std::string& parameter, double value) {
  const at::Tensor found = network.named_parameters()["head." + parameter];
  EXPECT_TRUE((found == static_cast<float>(value)).all().item<bool>()) << parameter;
}

TEST(HeadStartsTest, RetinaNetExpectsAnObjectAtOneAnchorInAHundred) {
  for (const auto conventions : {Conventions::kTorchvision, Conventions::kMmdetection}) {
    const auto network = Started("retinanet", Task::kDetection, conventions);
    ExpectConstant(*network, "classification_head.cls_logits.bias", -std::log(99.0));
    ExpectConstant(*network, "regression_head.bbox_reg.bias", 0);
    ExpectDeviation(*network, "classification_head.cls_logits.weight", 0.01);
    ExpectDeviation(*network, "regression_head.conv.2.0.weight", 0.01);
    // Uniform with a variance of one over its inputs.
    ExpectDeviation(*network, "fpn.layer_blocks.0.0.weight", 1 / std::sqrt(256.0 * 9));
    ExpectDeviation(*network, "fpn.extra_blocks.p7.weight", 1 / std::sqrt(256.0 * 9));
  }
  const auto normed = Started("retinanet", Task::kDetection, Conventions::kTorchvision);
  ExpectConstant(*normed, "classification_head.conv.0.1.weight", 1);
  ExpectConstant(*normed, "classification_head.conv.0.1.bias", 0);
}

TEST(HeadStartsTest, TwoStageDetectorsStartAsPublished) {
  const auto network = Started("mask_rcnn", Task::kDetection, Conventions::kMmdetection);
  ExpectDeviation(*network, "rpn.head.conv.0.0.weight", 0.01);
  ExpectDeviation(*network, "rpn.head.cls_logits.weight", 0.01);
  ExpectDeviation(*network, "roi_heads.box_predictor.cls_score.weight", 0.01);
  ExpectDeviation(*network, "roi_heads.box_predictor.bbox_pred.weight", 0.001);
  ExpectDeviation(*network, "roi_heads.box_head.fc7.weight", std::sqrt(2.0 / (1024 + 1024)));
  ExpectDeviation(*network, "roi_heads.mask_head.0.0.weight", std::sqrt(2.0 / (256 * 9)));
  ExpectConstant(*network, "roi_heads.box_predictor.cls_score.bias", 0);
  const auto cascade = Started("cascade_mask_rcnn", Task::kDetection, Conventions::kMmdetection);
  ExpectDeviation(*cascade, "roi_heads.box_predictor.2.bbox_pred.weight", 0.001);
}

TEST(HeadStartsTest, SegmentersClassifiersStartSmall) {
  ExpectDeviation(*Started("upernet", Task::kSegmentation, {}), "classifier.weight", 0.01);
  ExpectDeviation(*Started("semantic_fpn", Task::kSegmentation, {}), "conv_seg.weight", 0.01);
}

}  // namespace
}  // namespace fovea::models
