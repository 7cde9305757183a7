#include "model_zoo/training/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/registry/attentions.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/classification_task.h"
#include "model_zoo/training/data/shapes.h"
#include "model_zoo/training/initialisation.h"

namespace fovea::models::training {
namespace {

struct Tiny {
  Tiny() {
    training.epochs = 3;
    training.steps_per_epoch = 8;
    training.keep_best = false;
    pictures.batch_size = 20;
    pictures.validation_images = 40;
  }
  TrainingOptions training;
  ClassificationOptions pictures;
};

struct Outcome {
  std::shared_ptr<Backbone> backbone;
  std::vector<EpochReport> epochs;
  int64_t steps = 0;

  double Training(int epoch, const char* name) const {
    return ValueOf(epochs.at(epoch).training, name);
  }
  double Validation(int epoch, const char* name) const {
    return ValueOf(epochs.at(epoch).validation, name);
  }
};

void TrainOn(Outcome& outcome, const Tiny& options, const CheckpointOptions& checkpoints = {}) {
  const auto task = MakeClassificationTask(*outcome.backbone, options.pictures);
  Train(
      *outcome.backbone, *task, options.training, checkpoints,
      [&](const StepReport& step) { outcome.steps = step.step; },
      [&](const EpochReport& epoch) { outcome.epochs.push_back(epoch); });
}

std::shared_ptr<Backbone> Fresh(const std::string& attention = "dense") {
  std::shared_ptr<Backbone> backbone = LoadBackbone({.backbone = "vit_demo_patch8_64",
                                                     .attention = {attention},
                                                     .num_classes = kNumShapes,
                                                     .random_weights_seed = 3});
  InitialiseForSmallData(*backbone);
  return backbone;
}

Outcome TrainTiny(const Tiny& options, const std::string& attention = "dense") {
  Outcome outcome{.backbone = Fresh(attention)};
  TrainOn(outcome, options);
  return outcome;
}

bool SameParameters(const Backbone& a, const Backbone& b) {
  const auto left = a.parameters(), right = b.parameters();
  for (size_t i = 0; i < left.size(); ++i) {
    if (!at::equal(left[i], right[i])) return false;
  }
  return left.size() == right.size();
}

TEST(TrainerTest, TheSameSeedGivesTheSameBitsAndAnotherDoesNot) {
  Tiny options;
  options.training.epochs = 1;
  const Outcome first = TrainTiny(options), again = TrainTiny(options);
  options.pictures.drawing_threads = 3;
  const Outcome drawn_apart = TrainTiny(options);
  options.pictures.seed = 2;
  const Outcome other = TrainTiny(options);
  EXPECT_TRUE(SameParameters(*first.backbone, *again.backbone));
  EXPECT_TRUE(SameParameters(*first.backbone, *drawn_apart.backbone));
  EXPECT_FALSE(SameParameters(*first.backbone, *other.backbone));
  EXPECT_EQ(first.Validation(0, "validation_loss"), again.Validation(0, "validation_loss"));
}

TEST(TrainerTest, BothLossesFall) {
  Tiny options;
  options.training.epochs = 5;
  const Outcome outcome = TrainTiny(options);
  ASSERT_EQ(outcome.epochs.size(), 5u);
  EXPECT_EQ(outcome.steps, 40);
  EXPECT_LT(outcome.Training(4, "guide_loss"), 0.8 * outcome.Training(0, "guide_loss"));
  EXPECT_LT(outcome.Training(4, "training_loss"), outcome.Training(0, "training_loss"));
  EXPECT_EQ(outcome.epochs.back().epoch, 5);
}

TEST(TrainerTest, LearnsThroughKnnAttention) {
  const Outcome outcome = TrainTiny(Tiny(), "knn:k=0.5");
  EXPECT_LT(outcome.Training(2, "guide_loss"), 0.9 * outcome.Training(0, "guide_loss"));
}

TEST(TrainerTest, LearnsInBfloat16) {
  Tiny options;
  options.pictures.bf16 = true;
  const Outcome outcome = TrainTiny(options);
  EXPECT_LT(outcome.Training(2, "guide_loss"), 0.9 * outcome.Training(0, "guide_loss"));
  for (const at::Tensor& parameter : outcome.backbone->parameters()) {
    EXPECT_EQ(parameter.scalar_type(), at::kFloat);
  }
}

// The pictures that are only looked at: a black one, and those of the validation.
TEST(TrainerTest, RunningStatisticsAreThoseOfTheTrainingsPictures) {
  Tiny options;
  options.training.epochs = 1;
  options.training.steps_per_epoch = 1;
  options.pictures.batch_size = 8;
  options.pictures.guide_block = "stages.0.layers.0";
  std::vector<std::shared_ptr<Backbone>> trained;
  for (const auto& [validated, guided] : {std::pair(40, 1e-6), std::pair(0, 0.0)}) {
    options.training.validates = validated > 0;
    options.pictures.validation_images = validated;
    options.pictures.guide_weight = guided;
    Outcome outcome{
        .backbone = LoadBackbone(
            {.backbone = "cvt_13_32", .num_classes = kNumShapes, .random_weights_seed = 3})};
    TrainOn(outcome, options);
    trained.push_back(outcome.backbone);
  }
  const auto statistics = trained[0]->named_buffers(), expected = trained[1]->named_buffers();
  ASSERT_FALSE(statistics.is_empty());
  for (const auto& buffer : statistics) {
    EXPECT_TRUE(at::equal(buffer.value(), expected[buffer.key()])) << buffer.key();
    EXPECT_TRUE(buffer.value().ne(0).any().item<bool>()) << buffer.key();
  }
}

// In the frame in which the families are compared.
TEST(TrainerTest, EveryAttentionTakesAStepInEitherArithmetic) {
  Tiny options;
  options.training.epochs = 1;
  options.training.steps_per_epoch = 1;
  options.pictures.batch_size = 8;
  options.training.validates = false;
  for (const AttentionModuleEntry& attention : AttentionModules()) {
    for (const bool bf16 : {false, true}) {
      SCOPED_TRACE(std::string(attention.name) + (bf16 ? ", bf16" : ", fp32"));
      options.pictures.bf16 = bf16;
      const ModelDescription description{.backbone = "demo_frame_64",
                                         .attention = {std::string(attention.name)},
                                         .num_classes = kNumShapes,
                                         .random_weights_seed = 3};
      Outcome outcome{.backbone = LoadBackbone(description)};
      TrainOn(outcome, options);
      const auto before = LoadBackbone(description)->named_parameters();
      for (const auto& parameter : outcome.backbone->named_parameters()) {
        EXPECT_FALSE(at::equal(parameter.value(), before[parameter.key()])) << parameter.key();
      }
    }
  }
}

TEST(TrainerTest, AModelOfOtherClassesIsRefused) {
  const std::shared_ptr<Backbone> backbone =
      LoadBackbone({.backbone = "vit_demo_patch8_64", .num_classes = 7, .random_weights_seed = 3});
  EXPECT_THROW(MakeClassificationTask(*backbone, {}), c10::ValueError);
}

TEST(TrainerTest, ABlockThatIsNotThereIsRefused) {
  Tiny options;
  options.pictures.guide_block = "blocks.99";
  EXPECT_THROW(TrainTiny(options), c10::ValueError);
}

TEST(TrainerTest, ALossThatIsNoNumberEndsTheTraining) {
  Tiny options;
  options.training.peak_learning_rate = 1e30;
  EXPECT_THROW(TrainTiny(options), c10::Error);
}

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest() : folder_(std::filesystem::path(::testing::TempDir()) / "resume_test") {
    std::filesystem::remove_all(folder_);
  }
  ~ResumeTest() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_;
};

// Broken off within an epoch and between two, by a task that throws at a step.
TEST_F(ResumeTest, ATrainingThatWentOnGivesTheSameBits) {
  Tiny options;
  options.training.keep_best = true;
  const Outcome whole = TrainTiny(options);
  Outcome broken;
  for (const int64_t stop : {5, 8, 13, 24}) {
    broken = {.backbone = Fresh()};
    const auto task = MakeClassificationTask(*broken.backbone, options.pictures);
    struct Stop {};
    try {
      Train(
          *broken.backbone, *task, options.training,
          {.folder = folder_, .minutes = 0, .resume = true, .identity = "one"},
          [&](const StepReport& step) {
            // What is told before its checkpoint is lost with the process.
            if (step.step == stop && stop < 24) throw Stop();
          },
          [&](const EpochReport& epoch) { broken.epochs.push_back(epoch); });
    } catch (const Stop&) {
    }
  }
  EXPECT_TRUE(SameParameters(*whole.backbone, *broken.backbone));
  ASSERT_EQ(broken.epochs.size(), whole.epochs.size());
  for (size_t i = 0; i < whole.epochs.size(); ++i) {
    EXPECT_EQ(broken.epochs[i].epoch, whole.epochs[i].epoch);
    for (const Measure& measure : whole.epochs[i].training) {
      EXPECT_EQ(ValueOf(broken.epochs[i].training, measure.name), measure.value) << measure.name;
    }
    EXPECT_EQ(broken.epochs[i].score, whole.epochs[i].score);
  }
}

TEST_F(ResumeTest, ACheckpointOfAnotherTrainingIsRefusedAndLeft) {
  Tiny options;
  options.training.epochs = 1;
  Outcome outcome{.backbone = Fresh()};
  TrainOn(outcome, options, {.folder = folder_, .identity = "one"});
  outcome.backbone = Fresh();
  EXPECT_THROW(TrainOn(outcome, options, {.folder = folder_, .resume = true, .identity = "two"}),
               c10::ValueError);
  EXPECT_FALSE(std::filesystem::is_empty(folder_));
}

TEST_F(ResumeTest, WhatAKilledProcessLeftHalfWrittenIsNoCheckpoint) {
  std::filesystem::create_directories(folder_ / "writing");
  std::ofstream(folder_ / "writing/state.json") << "{";
  Tiny options;
  options.training.epochs = 1;
  Outcome outcome{.backbone = Fresh()};
  TrainOn(outcome, options, {.folder = folder_, .resume = true, .identity = "one"});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step-8/state.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "writing"));
}

// A task whose loss is a parameter's square, and whose scores are given.
class Scored final : public TrainingTask {
 public:
  Scored(const Backbone& backbone, std::vector<double> scores)
      : parameter_(backbone.parameters().front()),
        others_(backbone.parameters()),
        scores_(std::move(scores)) {}

  BatchLoss Loss(int64_t /*step*/) override {
    at::Tensor loss = parameter_.square().sum();
    for (const at::Tensor& other : others_) loss = loss + 0 * other.sum();
    return {.total = loss, .measures = {{"training_loss", loss.item<double>()}}};
  }
  Validation Validate() override {
    seen.push_back(parameter_.detach().clone());
    return {.measures = {}, .score = scores_.at(seen.size() - 1)};
  }
  Validation ValidateServed(const Model& /*model*/) override { return {}; }

  std::vector<at::Tensor> seen;  // at each validation

 private:
  const at::Tensor parameter_;
  const std::vector<at::Tensor> others_;
  const std::vector<double> scores_;
};

TEST(PatienceTest, EndsWhenItIsLostAndKeepsTheBest) {
  const std::shared_ptr<Backbone> backbone = Fresh();
  Scored task(*backbone, {0.1, 0.5, 0.4, 0.5, 0.9});
  std::vector<EpochReport> epochs;
  Train(
      *backbone, task, {.epochs = 5, .steps_per_epoch = 1, .patience = 2}, {},
      [](const StepReport&) {}, [&](const EpochReport& epoch) { epochs.push_back(epoch); });
  EXPECT_EQ(epochs.size(), 4u);
  EXPECT_TRUE(at::equal(backbone->parameters().front(), task.seen.at(1)));
  EXPECT_FALSE(at::equal(task.seen.at(1), task.seen.at(3)));
}

TEST(PatienceTest, WithoutItAllEpochsRunAndTheLastIsKeptWhereAsked) {
  const std::shared_ptr<Backbone> backbone = Fresh();
  Scored task(*backbone, {0.9, 0.1, 0.1});
  Train(
      *backbone, task, {.epochs = 3, .steps_per_epoch = 1, .keep_best = false}, {},
      [](const StepReport&) {}, [](const EpochReport&) {});
  ASSERT_EQ(task.seen.size(), 3u);
  EXPECT_TRUE(at::equal(backbone->parameters().front(), task.seen.at(2)));
}

TEST(InitialisationTest, KeysStartAsQueriesAndTheHeadAtZero) {
  const std::shared_ptr<Backbone> backbone = LoadBackbone(
      {.backbone = "vit_demo_patch8_64", .num_classes = kNumShapes, .random_weights_seed = 3});
  InitialiseForSmallData(*backbone);
  const auto parameters = backbone->named_parameters();
  const at::Tensor& qkv = parameters["blocks.1.attn.qkv.weight"];
  EXPECT_TRUE(at::equal(qkv.narrow(0, 0, 128), qkv.narrow(0, 128, 128)));
  EXPECT_FALSE(at::equal(qkv.narrow(0, 0, 128), qkv.narrow(0, 256, 128)));
  EXPECT_EQ(parameters["head.weight"].abs().max().item<float>(), 0);
  const at::Tensor& fc1 = parameters["blocks.0.mlp.fc1.weight"];
  EXPECT_NEAR(fc1.std().item<double>(), std::sqrt(2.0 / (fc1.size(0) + fc1.size(1))), 1e-4);
  // Neighbours are more alike than strangers.
  const at::Tensor position = parameters["pos_embed"][0];
  const auto alike = [&](int a, int b) { return at::dot(position[a], position[b]).item<double>(); };
  EXPECT_GT(alike(1, 2), alike(1, 8));
  EXPECT_GT(alike(1, 9), alike(1, 57));
  EXPECT_EQ(position[0].abs().max().item<float>(), 0);
}

}  // namespace
}  // namespace fovea::models::training
