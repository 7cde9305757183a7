// Every task that learns from samples, in little, and weights that another model starts from.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model_zoo/attention/registry/attentions.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/generated/scene.h"
#include "model_zoo/training/losses/matching.h"
#include "model_zoo/training/optimisation/initialisation.h"
#include "model_zoo/training/optimisation/trainer.h"
#include "model_zoo/training/tasks/average_precision.h"
#include "model_zoo/training/tasks/detection_task.h"
#include "model_zoo/training/tasks/segmentation_task.h"

namespace fovea::models::training {
namespace {

constexpr int kSide = 64, kLabels = 6;

ModelDescription Small(Task task, const std::string& head, const std::string& attention) {
  const bool counts_background = task == Task::kSegmentation || head == "mask_rcnn";
  return {.backbone = "linglo_demo",
          .attention = {attention},
          .task = task,
          .head = head,
          .head_channels = 32,
          .num_classes = kLabels + (counts_background ? 1 : 0),
          .image_height = kSide,
          .image_width = kSide,
          .random_weights_seed = 1};
}

struct SmallScenes {
  explicit SmallScenes(const std::vector<cv::Size>& sizes = {{kSide, kSide}})
      : training({.sizes = sizes}),
        validation({.stream = Stream::kValidation, .sizes = sizes, .count = 6}) {}

  const Scenes training, validation;
};

std::unique_ptr<TrainingTask> TaskOf(Backbone& backbone, Task task, const SmallScenes& scenes,
                                     bool bf16) {
  const SampleSources sources{scenes.training, scenes.validation};
  if (task == Task::kSegmentation) {
    return MakeSegmentationTask(backbone, sources, {.samples = {.batch_size = 4}, .bf16 = bf16});
  }
  DetectionTrainingOptions options{.samples = {.batch_size = 4}, .bf16 = bf16};
  options.regions.region_sample.count = 32;
  return MakeDetectionTask(backbone, sources, options);
}

struct Case {
  Task task;
  const char* head;
};
constexpr Case kCases[] = {{Task::kDetection, "retinanet"},
                           {Task::kDetection, "mask_rcnn"},
                           {Task::kSegmentation, "semantic_fpn"},
                           {Task::kSegmentation, "upernet"}};

struct Pictures {
  std::vector<cv::Size> sizes;
  bool bf16 = false;
};

// Padding is zero, and stays so in every layer of a fresh backbone.
TEST(TasksTest, EveryHeadLearnsFromPicturesOfAnyShapeAndMovesEveryParameter) {
  const cv::Size square(kSide, kSide), landscape(kSide, kSide * 3 / 4), wide(kSide, kSide * 9 / 16),
      upright(wide.height, wide.width);
  const Pictures pictures[] = {{{square}},
                               {{landscape}},
                               {{wide}},
                               {{upright}},
                               {{square, landscape, wide, upright}, /*bf16=*/true}};
  for (const auto& [task, head] : kCases) {
    for (const auto& [sizes, bf16] : pictures) {
      SCOPED_TRACE(std::string(head) + (bf16 ? ", bf16, mixed" : ", fp32"));
      SCOPED_TRACE(::testing::Message() << sizes.front());
      const SmallScenes scenes(sizes);
      const ModelDescription description = Small(task, head, "key_only");
      const std::shared_ptr<Backbone> backbone = LoadBackbone(description),
                                      before = LoadBackbone(description);
      for (Backbone* each : {backbone.get(), before.get()}) InitialiseForSmallData(*each);
      const auto learned = TaskOf(*backbone, task, scenes, bf16);
      std::vector<EpochReport> epochs;
      Train(
          *backbone, *learned, {.epochs = 2, .steps_per_epoch = 4, .keep_best = false}, {},
          [](const StepReport&) {}, [&](const EpochReport& epoch) { epochs.push_back(epoch); });
      EXPECT_LT(ValueOf(epochs.back().training, "training_loss"),
                ValueOf(epochs.front().training, "training_loss"));
      EXPECT_FALSE(epochs.back().validation.empty());
      const auto then = before->named_parameters();
      for (const auto& parameter : backbone->named_parameters()) {
        // The norm of the classifier that a backbone with a head does not have.
        const bool unused = parameter.key().starts_with("backbone.norm.");
        EXPECT_EQ(at::equal(parameter.value(), then[parameter.key()]), unused) << parameter.key();
        EXPECT_TRUE(parameter.value().isfinite().all().item<bool>()) << parameter.key();
      }
    }
  }
}

TEST(TasksTest, TheBundledAttentionsLearnToFind) {
  const SmallScenes scenes;
  for (const char* attention : {"dense", "key_only", "aewin"}) {
    SCOPED_TRACE(attention);
    const std::shared_ptr<Backbone> backbone =
        LoadBackbone(Small(Task::kDetection, "retinanet", attention));
    const auto task = TaskOf(*backbone, Task::kDetection, scenes, /*bf16=*/false);
    std::vector<double> losses;
    Train(
        *backbone, *task, {.epochs = 1, .steps_per_epoch = 8, .validates = false}, {},
        [&](const StepReport& step) { losses.push_back(step.loss); }, [](const EpochReport&) {});
    EXPECT_LT(losses.back(), losses.front());
  }
}

// Scenes of which the second one cannot be read.
class Breaking final : public SampleSource {
 public:
  GroundTruth ground_truth() const override { return scenes_.ground_truth(); }
  const std::vector<std::string>& labels() const override { return scenes_.labels(); }
  const std::vector<std::string>& map_labels() const override { return scenes_.map_labels(); }
  uint64_t size() const override { return scenes_.size(); }
  std::string Name(uint64_t index) const override { return scenes_.Name(index); }
  Sample Get(uint64_t index) const override {
    if (index == 1) throw DataError("the disk is worn");
    return scenes_.Get(index);
  }

 private:
  const Scenes scenes_{{.sizes = {{kSide, kSide}}, .count = 4}};
};

TEST(TasksTest, PicturesThatBreakAreToldOnceASideAndEndNothing) {
  const Breaking training, validation;
  const std::shared_ptr<Backbone> backbone =
      LoadBackbone(Small(Task::kSegmentation, "semantic_fpn", "key_only"));
  std::mutex mutex;
  std::vector<std::string> told;
  const auto tell = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    told.push_back(line);
  };
  const auto task = MakeSegmentationTask(*backbone, {training, validation},
                                         {.samples = {.batch_size = 1, .tell = tell}});
  int epochs = 0;
  Train(
      *backbone, *task, {.epochs = 2, .steps_per_epoch = 4}, {}, [](const StepReport&) {},
      [&](const EpochReport& epoch) { epochs += !epoch.validation.empty(); });
  EXPECT_EQ(epochs, 2);
  EXPECT_EQ(told, std::vector<std::string>(2, "the disk is worn: it is left out from now on"));
  std::vector<uint64_t> validated;
  const SampleBatches batches({training, validation}, *backbone, {.batch_size = 1});
  batches.ForEachOfValidation(
      [&](const TrainingBatch& batch) { validated.push_back(batch.indices.at(0)); });
  EXPECT_EQ(validated, (std::vector<uint64_t>{0, 2, 3}));
}

// The step decides what is drawn: pictures, augmentation and samples of regions.
TEST(TasksTest, AStepsLossIsTheSameHoweverItIsReached) {
  const SmallScenes scenes;
  for (const auto& [task, head] : kCases) {
    SCOPED_TRACE(head);
    const std::shared_ptr<Backbone> backbone = LoadBackbone(Small(task, head, "key_only"));
    const auto in_order = TaskOf(*backbone, task, scenes, false);
    const auto at_once = TaskOf(*backbone, task, scenes, false);
    backbone->eval();  // batch norms that train would differ
    in_order->Loss(0);
    const double second = in_order->Loss(1).measures[0].value;
    EXPECT_EQ(at_once->Loss(1).measures[0].value, second);
    EXPECT_NE(at_once->Loss(2).measures[0].value, second);
  }
}

TEST(TasksTest, AModelOfOtherClassesIsRefused) {
  const SmallScenes scenes;
  for (const auto& [task, head] : kCases) {
    ModelDescription description = Small(task, head, "key_only");
    description.num_classes += 1;
    const std::shared_ptr<Backbone> backbone = LoadBackbone(description);
    EXPECT_THROW(TaskOf(*backbone, task, scenes, false), c10::ValueError) << head;
  }
}

class StartTest : public ::testing::Test {
 protected:
  StartTest()
      : file_(std::filesystem::path(::testing::TempDir()) /
              ("start_test_" + std::to_string(::getpid()) + ".safetensors")) {}
  ~StartTest() override { std::filesystem::remove(file_); }

  FittedWeights Start(const ModelDescription& from, const ModelDescription& to) {
    SaveWeights(file_, *LoadBackbone(from), at::kFloat);
    ModelDescription fresh = to;
    fresh.random_weights_seed = 2;
    started_ = LoadBackbone(fresh);
    return LoadFittingWeights(SafetensorsFile(file_), *started_);
  }

  const std::filesystem::path file_;
  std::shared_ptr<Backbone> started_;
};

TEST_F(StartTest, TheSameModelKeepsEverything) {
  const ModelDescription model = Small(Task::kDetection, "retinanet", "key_only");
  const FittedWeights fitted = Start(model, model);
  EXPECT_TRUE(fitted.fresh.empty());
  EXPECT_TRUE(fitted.dropped.empty());
  const auto from = LoadBackbone(model)->named_parameters();
  for (const auto& parameter : started_->named_parameters()) {
    EXPECT_TRUE(at::equal(parameter.value(), from[parameter.key()])) << parameter.key();
  }
}

TEST_F(StartTest, AnotherNumberOfClassesGetsNewClassesOnly) {
  ModelDescription other = Small(Task::kDetection, "retinanet", "key_only");
  other.num_classes = 3;
  const FittedWeights fitted = Start(Small(Task::kDetection, "retinanet", "key_only"), other);
  const std::vector<std::string> classes = {"head.classification_head.cls_logits.bias",
                                            "head.classification_head.cls_logits.weight"};
  EXPECT_EQ(fitted.fresh, classes);
  EXPECT_EQ(fitted.dropped.size(), 2u);
}

TEST_F(StartTest, AnotherAttentionKeepsWhatIsNoAttention) {
  const FittedWeights fitted = Start(Small(Task::kDetection, "retinanet", "key_only"),
                                     Small(Task::kDetection, "retinanet", "dense"));
  EXPECT_FALSE(fitted.fresh.empty());
  for (const auto* names : {&fitted.fresh, &fitted.dropped}) {
    for (const std::string& name : *names) EXPECT_NE(name.find(".attn."), name.npos) << name;
  }
}

TEST_F(StartTest, AClassifierAndADetectorShareTheirBackbone) {
  ModelDescription classifier = Small(Task::kClassification, "", "key_only");
  classifier.head_channels = 0;
  const ModelDescription detector = Small(Task::kDetection, "retinanet", "key_only");
  FittedWeights fitted = Start(classifier, detector);
  // What stands behind the backbone, and the norms of the maps that it looks at.
  const auto of_head = [](const std::string& name) {
    return name.starts_with("head.") || name.starts_with("backbone.map_norms.");
  };
  for (const std::string& name : fitted.fresh) EXPECT_TRUE(of_head(name)) << name;
  EXPECT_GT(fitted.kept.size(), 50u);
  fitted = Start(detector, classifier);
  for (const std::string& name : fitted.dropped) EXPECT_TRUE(of_head(name)) << name;
  for (const std::string& name : fitted.fresh) {
    EXPECT_TRUE(name.starts_with("head.") || name.starts_with("norm.")) << name;
  }
}

ImageTruth TwoObjects() {
  return {.boxes = at::tensor({0., 0., 10., 10., 20., 20., 30., 30.}).to(at::kFloat).view({2, 4}),
          .labels = at::tensor({int64_t{1}, int64_t{1}}),
          .crowds = at::empty({0, 4})};
}

TEST(AveragePrecisionTest, IsTheAreaUnderTheBestPrecisions) {
  AveragePrecision precision;
  // Right, wrong (of another class), wrong (a second box on the first object), right.
  const at::Tensor boxes =
      at::tensor({0., 0., 10., 10., 0., 0., 10., 10., 1., 0., 10., 10., 20., 20., 30., 29.})
          .to(at::kFloat)
          .view({4, 4});
  precision.Add(boxes, at::tensor({0.9, 0.8, 0.7, 0.6}).to(at::kFloat),
                at::tensor({int64_t{1}, int64_t{0}, int64_t{1}, int64_t{1}}), TwoObjects());
  // Precision 1 up to the first object, 2 of 3 up to the second.
  EXPECT_NEAR(precision.Mean(), (1 + 2.0 / 3) / 2, 1e-12);
}

TEST(AveragePrecisionTest, WhatLiesInACrowdDoesNotCount) {
  ImageTruth truth = TwoObjects();
  truth.crowds = at::tensor({50., 50., 90., 90.}).to(at::kFloat).view({1, 4});
  const at::Tensor boxes =
      at::tensor({55., 55., 60., 60., 0., 0., 10., 10.}).to(at::kFloat).view({2, 4});
  const at::Tensor labels = at::tensor({int64_t{1}, int64_t{1}});
  EXPECT_EQ(TakenObjects(boxes, labels, truth)[0].item<int64_t>(), kBetween);
  AveragePrecision precision;
  precision.Add(boxes, at::tensor({0.9, 0.8}).to(at::kFloat), labels, truth);
  EXPECT_NEAR(precision.Mean(), 0.5, 1e-12);
}

TEST(AveragePrecisionTest, OfNothingIsNothing) { EXPECT_EQ(AveragePrecision().Mean(), 0); }

}  // namespace
}  // namespace fovea::models::training
