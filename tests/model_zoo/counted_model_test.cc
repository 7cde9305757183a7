// What `fovea zoo --heads` counts, without a pass at the papers' sizes: those are in
// test_zoo_table.py, for --full.
#include "model_zoo/costs/counted_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "model_zoo/costs/papers.h"
#include "model_zoo/heads/headed_backbone.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/heads.h"
#include "model_zoo/registry/load.h"

namespace fovea::models {
namespace {

// Built, and neither filled nor run.
int64_t ParametersOf(const PrintedCosts& row) {
  ModelDescription description = Describe(ModelOf(row));
  const auto head = std::ranges::find(Heads(), description.head, &HeadEntry::name);
  ModelDescription bare = description;
  bare.num_classes = ModelDescription::kNoClasses;
  const std::shared_ptr<Backbone> model =
      WithHead(FindBackbone(description.backbone)->make(bare), *head, description);
  int64_t parameters = 0;
  for (const at::Tensor& parameter : model->parameters()) parameters += parameter.numel();
  return parameters;
}

// In millions, with as many digits behind the point as `printed` has.
std::string Rounded(int64_t parameters, std::string_view printed) {
  const size_t point = printed.find('.');
  const size_t digits = point == printed.npos ? 0 : printed.size() - point - 1;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits),
                static_cast<double>(parameters) / 1e6);
  return text.data();
}

TEST(CountedModelTest, ParametersWithHeadsRoundToThePapersOrTheDifferenceIsExplained) {
  int compared = 0;
  for (const PrintedCosts& row : CostsWithHeadsInPapers()) {
    SCOPED_TRACE(std::string(row.head) + " on " + std::string(row.backbone));
    const int64_t parameters = ParametersOf(row);
    EXPECT_GT(parameters, 0);
    if (row.parameters.empty()) continue;
    ++compared;
    const std::string ours = Rounded(parameters, row.parameters);
    // An explanation of a difference that is not there would be wrong too.
    EXPECT_EQ(ours == row.parameters, row.parameters_differ.empty())
        << ours << " here, " << row.parameters << " printed";
  }
  EXPECT_EQ(compared, 6) << "RetinaNet and SemanticFPN on three sizes of LinGlo";
}

// torchvision publishes 44,401,393 of its own: with 91 classes, the background among them, each
// with a score, a box and a mask, and without the norms of ResNet-50, which it does not train. By
// mmdetection's conventions there are 80, and a score of the background; the norms count.
TEST(CountedModelTest, MaskRcnnOnResnet50HasThePublishedParameters) {
  const auto& rows = CostsWithHeadsInPapers();
  const auto row = std::ranges::find_if(rows, [](const PrintedCosts& one) {
    return one.backbone == "resnet50" && one.head == "mask_rcnn";
  });
  ASSERT_NE(row, rows.end());
  constexpr int64_t kTorchvisions = 44'401'393, kNorms = 2 * 26'560;
  constexpr int64_t kScore = 1024 + 1, kBox = 4 * (1024 + 1), kMask = 256 + 1;
  EXPECT_EQ(ParametersOf(*row),
            kTorchvisions + kNorms - (91 - 81) * kScore - (91 - 80) * (kBox + kMask));
}

// Cascade Mask R-CNN over Mask R-CNN on one backbone, by hand: two box stages and two mask heads
// more, with one class and so as many boxes. A threshold that random weights do not reach leaves
// nothing to be found.
TEST(CountedModelTest, TwoStagesAreCountedWithAllProposalsAndMasksThatThereMayBe) {
  constexpr int64_t kChannels = 32, kVector = 4 * kChannels, kProposals = 1000, kMasks = 7;
  const auto counted = [](std::string_view head) {
    ModelDescription description =
        Describe({.backbone = "linglo_b0", .head = head, .size = {384, 384}});
    description.num_classes = 1;
    description.head_channels = kChannels;
    description.detection.score_threshold = 0.999;
    description.detection.detections_per_image = kMasks;
    return MultiplyAdds(*LoadModel(description));
  };
  constexpr int64_t kScores = 2, kBox = 4;  // an object or background; one box for all classes
  const int64_t boxes =
      kProposals * (7 * 7 * kChannels * kVector + kVector * kVector + kVector * (kScores + kBox));
  const int64_t masks = kMasks * (4 * 14 * 14 * kChannels * kChannels * 9 +
                                  14 * 14 * kChannels * kChannels * 4 + 28 * 28 * kChannels);
  EXPECT_EQ(counted("cascade_mask_rcnn") - counted("mask_rcnn"), 2 * (boxes + masks));
}

}  // namespace
}  // namespace fovea::models
