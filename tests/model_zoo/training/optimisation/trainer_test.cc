#include "model_zoo/training/optimisation/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/attention/registry/attentions.h"
#include "model_zoo/registry/backbones.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/generated/shapes.h"
#include "tests/model_zoo/training/tiny_training.h"

namespace fovea::models::training {
namespace {

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
  EXPECT_THROW(MakeShapeClassificationTask(*backbone, {}), c10::ValueError);
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

// A loss of zero, whose gradient is zero times infinity.
class NoSlopeTask final : public TrainingTask {
 public:
  explicit NoSlopeTask(const Backbone& backbone) : parameters_(backbone.parameters()) {}

  BatchLoss Loss(int64_t /*step*/) override {
    at::Tensor total = at::zeros({});
    for (const at::Tensor& parameter : parameters_) {
      total = total + parameter.mul(0).sum().square().sqrt();
    }
    return {total, {{"training_loss", total.item<double>()}}};
  }
  Validation Validate() override { return {}; }
  Validation ValidateServed(const Model& /*model*/) override { return {}; }

 private:
  const std::vector<at::Tensor> parameters_;
};

TEST(TrainerTest, AGradientThatIsNotFiniteEndsTheTrainingBeforeItsStep) {
  const std::shared_ptr<Backbone> backbone = Fresh();
  NoSlopeTask task(*backbone);
  EXPECT_THROW(Train(
                   *backbone, task, Tiny().training, {}, [](const StepReport&) {},
                   [](const EpochReport&) {}),
               c10::Error);
  EXPECT_TRUE(SameParameters(*backbone, *Fresh()));
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

TEST(InitialisationTest, ABackboneBehindAHeadStartsAsAloneAndTheHeadStays) {
  const auto load = [] {
    return LoadBackbone({.backbone = "linglo_demo",
                         .attention = {"dense"},
                         .task = Task::kDetection,
                         .head = "retinanet",
                         .head_channels = 32,
                         .num_classes = 2,
                         .random_weights_seed = 3});
  };
  const std::shared_ptr<Backbone> published = load(), started = load();
  InitialiseForSmallData(*started);
  int matrices = 0;
  for (const auto& parameter : started->named_parameters()) {
    const std::string& name = parameter.key();
    const at::Tensor& now = parameter.value();
    const at::Tensor& before = published->named_parameters()[name];
    if (name.starts_with("head.")) {
      EXPECT_TRUE(at::equal(now, before)) << name;
    }
    if (!name.starts_with("backbone.") || now.dim() != 2 || !name.ends_with(".weight")) continue;
    if (name.ends_with(".attn.qkv.weight")) continue;  // keys are queries: another deviation
    EXPECT_NEAR(now.std().item<double>(), std::sqrt(2.0 / (now.size(0) + now.size(1))), 1e-4)
        << name;
    ++matrices;
  }
  EXPECT_GT(matrices, 4);
}

// PiT's and VOLO's position embeddings are maps, which stay.
TEST(InitialisationTest, EveryArchitectureCanBeStarted) {
  for (const BackboneEntry& entry : Backbones()) {
    const std::shared_ptr<Backbone> backbone =
        entry.make_tiny({.name = "m", .backbone = entry.name});
    const at::NoGradGuard no_grad;
    backbone->Initialise(5);
    EXPECT_NO_THROW(InitialiseForSmallData(*backbone)) << entry.name;
  }
}

}  // namespace
}  // namespace fovea::models::training
