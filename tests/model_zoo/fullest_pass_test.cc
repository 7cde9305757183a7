// A pass that is to hold what one holds at most: what the warm-up measures.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/memory/memory_ledger.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/small_detector.h"

namespace fovea::models {
namespace {

constexpr int64_t kMost = 40;

class Watching final : public ForwardContext {
 public:
  explicit Watching(bool fullest) : fullest_(fullest) {}
  bool Fullest() const override { return fullest_; }
  bool Recording() const override { return true; }
  void Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) override {
    rows[std::string(layer) + "." + std::string(name)] = tensor.size(0);
  }
  std::map<std::string, int64_t> rows;

 private:
  const bool fullest_;
};

// Of a plain picture, in which no object is sure enough.
TEST(FullestPassTest, MasksAreMadeForAsManyObjectsAsAPictureMayShow) {
  ModelDescription description = SmallMaskRcnn();
  description.detection.score_threshold = 0.999;
  description.detection.detections_per_image = kMost;
  const auto model = LoadModel(description);
  model->Prepare(c10::kCPU, Precision::kFp32);
  const at::Tensor plain = at::zeros({2, 3, 64, 64});
  const auto peak = [&](bool fullest) {
    Watching context(fullest);
    kernels::MemoryLedger ledger;
    const std::vector<at::Tensor> outputs = model->Run(plain, context);
    EXPECT_EQ(outputs.at(3).sum().item<int64_t>(), 0) << "nothing is found either way";
    EXPECT_EQ(context.rows["head.masks.logits"], fullest ? 2 * kMost : 0);
    return ledger.peak_bytes();
  };
  const int64_t nothing = peak(false), most = peak(true);
  // The masks' last convolution: its input, and its output of one class.
  EXPECT_GE(most, 2 * kMost * (256 + 1) * 28 * 28 * int64_t{sizeof(float)});
  EXPECT_GT(most, nothing);
}

TEST(FullestPassTest, TheMasksOfThousandsOfClassesAreNeverMade) {
  constexpr int64_t kClasses = 3000;
  ModelDescription description{.name = "thousands",
                               .backbone = "linglo_b0",
                               .task = Task::kDetection,
                               .head = "mask_rcnn",
                               .num_classes = kClasses,
                               .image_height = 64,
                               .image_width = 64,
                               .random_weights_seed = 1};
  description.detection.score_threshold = 0.999;
  description.detection.detections_per_image = kMost;
  description.head_channels = 32;
  const auto model = LoadModel(description);
  model->Prepare(c10::kCPU, Precision::kFp32);
  Watching context(/*fullest=*/true);
  const kernels::MemoryLedger ledger;
  model->Run(at::zeros({1, 3, 64, 64}), context);
  EXPECT_EQ(context.rows["head.masks.logits"], kMost);
  EXPECT_LT(ledger.peak_bytes(), kMost * kClasses * 28 * 28 * int64_t{sizeof(float)});
}

// The memory that it takes to choose among them follows from how many there are.
TEST(FullestPassTest, EveryPlaceOfADetectorIsACandidate) {
  ModelDescription description{.name = "boxes",
                               .backbone = "linglo_b0",
                               .task = Task::kDetection,
                               .head = "retinanet",
                               .num_classes = 20,
                               .image_height = 64,
                               .image_width = 64,
                               .random_weights_seed = 1};
  const auto model = LoadModel(description);
  model->Prepare(c10::kCPU, Precision::kFp32);
  const at::Tensor plain = at::zeros({1, 3, 64, 64});
  const auto candidates = [&](bool fullest) {
    Watching context(fullest);
    return model->RunBatch(plain, context).at(1).ge(0).sum().item<int64_t>();
  };
  EXPECT_EQ(candidates(false), 0);
  // 9 anchors of 20 classes on maps of 8x8, 4x4, 2x2, 1x1 and 1x1 places; of each map 1000 at most.
  EXPECT_EQ(candidates(true), 1000 + 1000 + 720 + 180 + 180);
}

}  // namespace
}  // namespace fovea::models
