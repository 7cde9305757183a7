#include "model_zoo/model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/weights/safetensors_writer.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelDescription Demo(std::vector<std::string> attention = {}) {
  return {.name = "demo",
          .backbone = "vit_demo_patch8_64",
          .attention = std::move(attention),
          .random_weights_seed = 1};
}

at::Tensor Pixels(int64_t images, int64_t side = 64) {
  return at::randn({images, 3, side, side}, at::make_generator<at::CPUGeneratorImpl>(7));
}

std::unique_ptr<Model> Prepared(const ModelDescription& description) {
  std::unique_ptr<Model> model = LoadModel(description);
  model->Prepare(c10::kCPU, description.precision);
  return model;
}

at::Tensor Logits(const Model& model, const at::Tensor& pixels) {
  ForwardContext context;
  return model.Run(pixels, context).at(0);
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.std()).item<double>();
}

std::string LoadError(const ModelDescription& description) {
  return ErrorOf([&] { LoadModel(description); });
}

// What the demo model of seed 1 would read from a file, to be spoiled.
class WeightsFileTest : public ::testing::Test {
 protected:
  WeightsFileTest()
      : path_(std::filesystem::path(::testing::TempDir()) /
              ("model_" + std::to_string(::getpid()) + ".safetensors")) {
    for (const auto& parameter : LoadBackbone(Demo())->named_parameters()) {
      tensors_.emplace_back(parameter.key(), parameter.value());
    }
  }
  ~WeightsFileTest() override { std::filesystem::remove(path_); }

  ModelDescription FromFile(c10::ScalarType dtype = at::kFloat) {
    WriteSafetensors(path_, tensors_, dtype);
    ModelDescription description = Demo();
    description.random_weights_seed.reset();
    description.weights = path_;
    return description;
  }
  at::Tensor& Find(const std::string& name) {
    return std::ranges::find(tensors_, name, &NamedTensor::first)->second;
  }

  const std::filesystem::path path_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(WeightsFileTest, AFileGivesTheSameModelAsTheWeightsItWasWrittenFrom) {
  const at::Tensor pixels = Pixels(2);
  EXPECT_TRUE(at::equal(Logits(*Prepared(FromFile()), pixels), Logits(*Prepared(Demo()), pixels)));
}

TEST_F(WeightsFileTest, HalvesAreCast) {
  const at::Tensor pixels = Pixels(2);
  const at::Tensor expected = Logits(*Prepared(Demo()), pixels);
  EXPECT_LT(Difference(Logits(*Prepared(FromFile(at::kHalf)), pixels), expected), 5e-3);
  EXPECT_LT(Difference(Logits(*Prepared(FromFile(at::kBFloat16)), pixels), expected), 4e-2);
}

TEST_F(WeightsFileTest, AMissingTensorIsNamed) {
  std::erase_if(tensors_,
                [](const NamedTensor& tensor) { return tensor.first == "blocks.2.attn.qkv.bias"; });
  EXPECT_EQ(LoadError(FromFile()),
            "the weights lack what vit_demo_patch8_64 needs: 'blocks.2.attn.qkv.bias'");
}

TEST_F(WeightsFileTest, ManyMissingTensorsAreCounted) {
  std::erase_if(tensors_,
                [](const NamedTensor& tensor) { return tensor.first.starts_with("blocks.0."); });
  EXPECT_THAT(LoadError(FromFile()), HasSubstr("and 9 more"));
}

TEST_F(WeightsFileTest, AnUnknownTensorIsNamed) {
  tensors_.emplace_back("blocks.9.extra\n", at::ones({3}));
  EXPECT_EQ(LoadError(FromFile()),
            "the weights hold what vit_demo_patch8_64 does not know: 'blocks.9.extra?'");
}

TEST_F(WeightsFileTest, AWrongShapeIsNamedWithBothShapes) {
  Find("head.weight") = at::zeros({11, 128});
  EXPECT_EQ(LoadError(FromFile()),
            "tensor 'head.weight' is [11, 128], vit_demo_patch8_64 needs [10, 128]");
}

// Wherever it stands, and though no pass over a plain picture might ever reach it.
TEST_F(WeightsFileTest, Row61ANumberThatIsNotFiniteIsRefusedWithItsTensor) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto refused = [&](const std::string& name, int64_t place, float value) {
    at::Tensor& tensor = Find(name);
    const at::Tensor whole = tensor;
    tensor = whole.detach().clone();
    tensor.view(-1)[place] = value;
    for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
      EXPECT_EQ(LoadError(FromFile(dtype)), "tensor '" + name + "' holds a NaN or an infinity")
          << place << " " << value << " as " << dtype;
    }
    tensor = whole;
  };
  for (const float value : {std::nanf(""), kInfinity, -kInfinity}) {
    refused("head.bias", 0, value);
    refused("head.bias", 9, value);
    refused("blocks.1.mlp.fc1.weight", -1, value);
    refused("cls_token", 64, value);
  }
  EXPECT_EQ(LoadError(FromFile()), "no error");
}

TEST_F(WeightsFileTest, Row61ANumberThatIsNotFiniteIsSeenBeforePositionsAreResized) {
  Find("pos_embed") = Find("pos_embed").detach().clone();
  Find("pos_embed").view(-1)[64 * 128] = std::nanf("");
  ModelDescription description = FromFile();
  description.image_width = 128;
  EXPECT_EQ(LoadError(description), "tensor 'pos_embed' holds a NaN or an infinity");
}

TEST_F(WeightsFileTest, PositionEmbeddingsFollowAnotherImageSize) {
  ModelDescription description = FromFile();
  description.image_width = 128;
  const std::shared_ptr<Backbone> wide = LoadBackbone(description);
  const at::Tensor embedding = wide->named_parameters()["pos_embed"];
  EXPECT_THAT(embedding.sizes(), ElementsAre(1, 129, 128));
  const at::Tensor& stored = Find("pos_embed");
  EXPECT_TRUE(at::equal(embedding.select(1, 0), stored.select(1, 0)));  // the class token's
  // Twice as wide, the mean of two neighbours is near the one that they came from.
  const at::Tensor pairs = embedding.narrow(1, 1, 128).unflatten(1, {64, 2}).mean(2);
  EXPECT_LT(Difference(pairs, stored.narrow(1, 1, 64)), 1.5);
}

TEST_F(WeightsFileTest, PositionEmbeddingsThatAreNoSquareAreRefused) {
  Find("pos_embed") = at::zeros({1, 64, 128});
  EXPECT_EQ(LoadError(FromFile()),
            "tensor 'pos_embed' is [1, 64, 128], vit_demo_patch8_64 needs [1, 65, 128]");
}

TEST(LoadModelTest, WhatCannotBeIsSaidInWords) {
  EXPECT_EQ(LoadError({.backbone = "resnet18"}),
            "there is no backbone 'resnet18'; did you mean 'resnet50'?");
  EXPECT_EQ(LoadError({.backbone = "vit_demo_patch8_64"}),
            "the model has neither weights nor a seed for random ones");
  ModelDescription description = Demo();
  description.task = Task::kSegmentation;
  description.head = "retinanet";
  EXPECT_EQ(LoadError(description),
            "the head 'retinanet' is for detection, and the task is segmentation");
  description.head = "none";
  EXPECT_EQ(LoadError(description), "there is no head 'none'");
  description.head = "retina_net";
  EXPECT_EQ(LoadError(description), "there is no head 'retina_net'; did you mean 'retinanet'?");
  description = Demo();
  description.image_height = 60;
  EXPECT_THAT(LoadError(description),
              HasSubstr("patches of 8 pixels, which 60x64 does not divide into"));
  description = Demo();
  description.weights = "/nowhere/model.safetensors";
  description.random_weights_seed.reset();
  EXPECT_EQ(LoadError(description), "the weights cannot be opened: No such file or directory");
}

TEST(LoadModelTest, AnAttentionThatCannotStandThereIsRefusedWithItsReason) {
  const std::string where = " cannot stand in vit_demo_patch8_64: ";
  EXPECT_EQ(LoadError(Demo({"knn:k=66"})),
            "attention 'knn:k=66'" + where + "k=66, but a query sees only 65 keys");
  EXPECT_THAT(LoadError(Demo({"knn:k=66,exact"})), HasSubstr("a query sees only 65 keys"));
  EXPECT_THAT(LoadError(Demo({"dense|dense"})), HasSubstr("each of the backbone's 1 stage"));
}

TEST(ModelTest, TheAttentionIsReportedInItsOneSpelling) {
  EXPECT_EQ(LoadModel(Demo())->info().attention, "dense");
  EXPECT_EQ(LoadModel(Demo({"self/knn:k=0.50"}))->info().attention, "knn:k=0.5");
  EXPECT_EQ(LoadModel(Demo({"knn:exact,k=5"}))->info().attention, "knn:k=5,exact");
}

TEST(ModelTest, FactsAreThoseOfThePublishedModel) {
  const std::unique_ptr<Model> model =
      LoadModel({.backbone = "deit_tiny_patch16_224", .random_weights_seed = 0});
  EXPECT_EQ(model->info().parameters, 5'717'416);
  EXPECT_EQ(model->info().tokens, 197);
  EXPECT_EQ(model->info().outputs[0].name, "logits");
  EXPECT_THAT(model->info().outputs[0].shape, ElementsAre(1000));
  EXPECT_EQ(model->weight_bytes(), 4 * model->info().parameters);
}

TEST(ModelTest, PreparingFreesThePublishedForm) {
  const std::unique_ptr<Model> model = Prepared(Demo());
  EXPECT_GE(model->weight_bytes(), 4 * model->info().parameters);
  EXPECT_LT(model->weight_bytes(), 4.4 * model->info().parameters);  // layouts are padded
  ModelDescription half = Demo();
  half.precision = Precision::kBf16;
  EXPECT_LT(Prepared(half)->weight_bytes(), 2.3 * model->info().parameters);
  ModelDescription quarter = Demo();
  quarter.precision = Precision::kInt8;
  EXPECT_LT(Prepared(quarter)->weight_bytes(), 1.4 * model->info().parameters);
}

TEST(ModelTest, PreparedAndTrainableFormsAgree) {
  for (const std::vector<std::string>& attention : {std::vector<std::string>{}, {"knn:k=0.5"}}) {
    const at::Tensor pixels = Pixels(3);
    const at::Tensor expected = Logits(*LoadModel(Demo(attention)), pixels);
    EXPECT_LT(Difference(Logits(*Prepared(Demo(attention)), pixels), expected), 1e-4);
  }
}

TEST(ModelTest, KeepingEveryKeyIsDenseAttention) {
  const at::Tensor pixels = Pixels(2);
  const at::Tensor dense = Logits(*Prepared(Demo()), pixels);
  EXPECT_LT(Difference(Logits(*Prepared(Demo({"knn:k=65"})), pixels), dense), 1e-4);
  EXPECT_LT(Difference(Logits(*Prepared(Demo({"knn:k=1.0"})), pixels), dense), 1e-4);
  EXPECT_GT(Difference(Logits(*Prepared(Demo({"knn:k=5"})), pixels), dense), 1e-3);
}

TEST(ModelTest, TemperatureDividesTheLogits) {
  const at::Tensor pixels = Pixels(2);
  const at::Tensor dense = Logits(*Prepared(Demo()), pixels);
  const at::Tensor cold = Logits(*Prepared(Demo({"dense:temperature=0.01"})), pixels);
  EXPECT_GT(Difference(cold, dense), 1e-3);
  EXPECT_LT(Difference(Logits(*Prepared(Demo({"knn:k=1.0,temperature=0.01"})), pixels), cold),
            1e-3);
}

TEST(ModelTest, ABatchIsBitEqualToItself) {
  for (Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
    ModelDescription description = Demo({"knn:k=0.5"});
    description.precision = precision;
    const std::unique_ptr<Model> model = Prepared(description);
    const at::Tensor pixels = Pixels(5);
    const at::Tensor first = Logits(*model, pixels);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(at::equal(Logits(*model, pixels), first));
    }
  }
}

TEST(ModelTest, AnImageAnswersTheSameInEveryBatch) {
  struct Case {
    Precision precision;
    double tolerance;
  };
  for (const Case& c :
       {Case{Precision::kFp32, 1e-4}, Case{Precision::kBf16, 2e-2}, Case{Precision::kInt8, 2e-2}}) {
    for (const std::vector<std::string>& attention : {std::vector<std::string>{}, {"knn:k=0.5"}}) {
      ModelDescription description = Demo(attention);
      description.precision = c.precision;
      const std::unique_ptr<Model> model = Prepared(description);
      const at::Tensor pixels = Pixels(8);
      const at::Tensor together = Logits(*model, pixels);
      for (int64_t images : {1, 2, 3, 7}) {
        EXPECT_LE(
            Difference(Logits(*model, pixels.narrow(0, 0, images)), together.narrow(0, 0, images)),
            c.tolerance)
            << images << " images";
      }
    }
  }
}

TEST(ModelTest, ThreadsShareAPreparedModel) {
  const std::unique_ptr<Model> model = Prepared(Demo());
  const at::Tensor pixels = Pixels(4);
  const at::Tensor expected = Logits(*model, pixels);
  std::vector<std::thread> threads;
  std::vector<double> differences(3, 1);
  for (double& difference : differences) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        difference = Difference(Logits(*model, pixels), expected);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (double difference : differences) {
    EXPECT_LE(difference, 1e-4);
  }
}

TEST(ModelTest, SeededWeightsDoNotDependOnThreads) {
  const int threads = at::get_num_threads();
  const at::Tensor pixels = Pixels(1);
  const std::shared_ptr<Backbone> one = LoadBackbone(Demo());
  at::set_num_threads(threads == 1 ? 2 : 1);
  const std::shared_ptr<Backbone> other = LoadBackbone(Demo());
  at::set_num_threads(threads);
  for (const auto& parameter : one->named_parameters()) {
    EXPECT_TRUE(at::equal(parameter.value(), other->named_parameters()[parameter.key()]))
        << parameter.key();
  }
  ModelDescription description = Demo();
  description.random_weights_seed = 2;
  EXPECT_GT(Difference(Logits(*Prepared(description), pixels), Logits(*Prepared(Demo()), pixels)),
            1e-2);
}

TEST(ModelTest, SeededWeightsHaveTimmsDistribution) {
  const auto parameters =
      LoadBackbone({.backbone = "deit_tiny_patch16_224", .random_weights_seed = 3})
          ->named_parameters();
  const at::Tensor qkv = parameters["blocks.0.attn.qkv.weight"];
  EXPECT_NEAR(qkv.std().item<double>(), 0.02, 2e-4);
  EXPECT_NEAR(qkv.mean().item<double>(), 0, 2e-4);
  EXPECT_NEAR(qkv.abs().max().item<double>() / 0.02, 4.4, 0.8);
  const double bound = 1 / std::sqrt(3 * 16 * 16.0);
  EXPECT_NEAR(parameters["patch_embed.proj.weight"].max().item<double>(), bound, bound * 1e-3);
  EXPECT_NEAR(parameters["patch_embed.proj.weight"].mean().item<double>(), 0, bound * 1e-2);
  EXPECT_TRUE(at::equal(parameters["norm.weight"], at::ones({192})));
  EXPECT_TRUE(at::equal(parameters["head.bias"], at::zeros({1000})));
  EXPECT_FALSE(at::equal(qkv, parameters["blocks.1.attn.qkv.weight"]));
}

TEST(ModelTest, StopsBetweenBlocksWhenEveryCallerHasGone) {
  struct Gone : ForwardContext {
    int asked = 0;
    bool ShouldStop() override { return ++asked > 2; }
  } context;
  EXPECT_TRUE(Prepared(Demo())->Run(Pixels(1), context).empty());
  EXPECT_EQ(context.asked, 3);
}

TEST(ModelTest, RecordsEveryBranchWithoutChangingTheAnswer) {
  struct Recorder : ForwardContext {
    std::map<std::string, at::Tensor> seen;
    std::vector<std::string> stages;
    void Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) override {
      seen[std::string(layer) + "/" + std::string(name)] = tensor;
    }
    bool Recording() const override { return true; }
    void EnterStage(std::string_view name) override { stages.emplace_back(name); }
  } recorder;
  const std::unique_ptr<Model> model = Prepared(Demo());
  const at::Tensor pixels = Pixels(2);
  const at::Tensor logits = model->Run(pixels, recorder).at(0);
  EXPECT_LT(Difference(logits, Logits(*model, pixels)), 1e-4);
  EXPECT_EQ(recorder.seen.size(), 3u * 6);
  EXPECT_THAT(recorder.seen["blocks.5.attn/output"].sizes(), ElementsAre(2, 65, 128));
  EXPECT_THAT(recorder.stages, ElementsAre("stem", "stage1", "head"));
}

TEST(ModelTest, OtherPixelsAreRefused) {
  const std::unique_ptr<Model> model = Prepared(Demo());
  auto error = [&](const at::Tensor& pixels) { return ErrorOf([&] { Logits(*model, pixels); }); };
  EXPECT_THAT(error(Pixels(1, 72)),
              HasSubstr("takes FP32 [N, 3, 64, 64], not Float [1, 3, 72, 72]"));
  EXPECT_THAT(error(Pixels(1).to(at::kDouble)), HasSubstr("not Double"));
  EXPECT_THAT(error(Pixels(1)[0]), HasSubstr("[3, 64, 64]"));
  EXPECT_THAT(error(Pixels(0)), HasSubstr("at least one image"));
}

TEST(ModelTest, DinoGivesFeaturesUnlessItHasClasses) {
  ModelDescription description{.backbone = "vit_small_patch16_224.dino", .random_weights_seed = 1};
  const std::unique_ptr<Model> features = LoadModel(description);
  EXPECT_EQ(features->info().num_classes, 0);
  EXPECT_EQ(features->info().outputs[0].name, "features");
  EXPECT_THAT(features->info().outputs[0].shape, ElementsAre(384));
  description.num_classes = 7;
  EXPECT_EQ(LoadModel(description)->info().outputs[0].name, "logits");
  EXPECT_THAT(LoadModel(description)->info().outputs[0].shape, ElementsAre(7));
}

TEST(ModelTest, IdentityReturnsACopyOfItsBytes) {
  ModelDescription description{.backbone = "identity", .image_height = 5, .image_width = 4};
  const std::unique_ptr<Model> model = Prepared(description);
  const at::Tensor pixels = at::randint(0, 256, {2, 5, 4, 3}, at::kByte);
  const at::Tensor output = Logits(*model, pixels);
  EXPECT_TRUE(at::equal(output, pixels));
  EXPECT_NE(output.data_ptr(), pixels.data_ptr());
  EXPECT_EQ(model->info().pixel_input, PixelInput::kBytes);
  EXPECT_EQ(model->weight_bytes(), 0);
  EXPECT_EQ(LoadError({.backbone = "identity", .attention = {"dense"}}),
            "identity has no attention");
}

}  // namespace
}  // namespace fovea::models
