// What depends on the number of tokens, in detectors and segmenters, which run at many sizes: k as
// a share follows it, static keys stay within windows of the map that they were trained for.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model_zoo/registry/load.h"

namespace fovea::models {
namespace {

using testing::ElementsAre;

ModelDescription Detector(const std::string& backbone, const std::string& attention,
                          const ImageSize& size) {
  ModelDescription description{.backbone = backbone,
                               .attention = {attention},
                               .task = Task::kDetection,
                               .head = "retinanet",
                               .num_classes = 3,
                               .image_height = size.height,
                               .image_width = size.width,
                               .random_weights_seed = 1};
  description.head_channels = 32;
  return description;
}

at::Tensor Pixels(const ImageSize& size) {
  return at::randn({1, 3, size.height, size.width}, at::make_generator<at::CPUGeneratorImpl>(1));
}

at::Tensor Coarsest(const ModelDescription& description) {
  const std::unique_ptr<Model> model = LoadModel(description);
  model->Prepare(at::kCPU, Precision::kFp32);
  ForwardContext context;
  return model->Features(Pixels({model->info().image_height, model->info().image_width}), context)
      .back();
}

// The third stage has a token for 16x16 pixels.
TEST(DenseTasksTest, ADetectorsShareOfTheKeysFollowsTheTokens) {
  const std::string share = "conv|conv|knn:k=0.5|dense";
  const struct {
    ImageSize size;
    int keys;
  } cases[] = {{{96, 160}, 30}, {{128, 160}, 40}};
  for (const auto& [size, keys] : cases) {
    const auto counted = [&](int k) {
      return Coarsest(
          Detector("caformer_s18", "conv|conv|knn:k=" + std::to_string(k) + "|dense", size));
    };
    const at::Tensor found = Coarsest(Detector("caformer_s18", share, size));
    EXPECT_TRUE(at::equal(found, counted(keys)));
    EXPECT_FALSE(at::equal(found, counted(keys - 1)));
  }
  // As a plan of one model, too.
  ModelDescription both = Detector("caformer_s18", share, cases[0].size);
  both.further_sizes = {cases[1].size};
  const std::unique_ptr<Model> model = LoadModel(both);
  model->Prepare(at::kCPU, Precision::kFp32);
  ForwardContext context;
  EXPECT_TRUE(at::equal(model->Features(Pixels(cases[1].size), context).back(),
                        Coarsest(Detector("caformer_s18", share, cases[1].size))));
}

TEST(DenseTasksTest, StaticKeysOfADetectorAreThoseOfTheTrainedMapAtAnySize) {
  for (const char* backbone : {"skaformer_s18", "cskaformer_s18"}) {
    SCOPED_TRACE(backbone);
    const ImageSize small{64, 96}, large{232, 296};
    ModelDescription description = Detector(backbone, "", small);
    description.attention.clear();
    description.further_sizes = {large};
    const std::shared_ptr<Backbone> network = LoadBackbone(description);
    const bool convolved = std::string(backbone) == "cskaformer_s18";
    const at::Tensor keys =
        network->named_parameters()[std::string("backbone.stages.1.blocks.0.token_mixer.") +
                                    (convolved ? "to_k.weight" : "k")];
    if (convolved) {
      EXPECT_THAT(keys.sizes(), ElementsAre(4 * 28 * 28, 32, 3, 3));
    } else {
      EXPECT_THAT(keys.sizes(), ElementsAre(4, 28 * 28, 32));
    }
    const std::unique_ptr<Model> model = LoadModel(description);
    model->Prepare(at::kCPU, Precision::kFp32);
    ForwardContext context;
    const at::Tensor map = model->Features(Pixels(large), context).at(1);
    EXPECT_THAT(map.sizes(), ElementsAre(1, 128, 29, 37));
    ModelDescription alone = Detector(backbone, "", large);
    alone.attention.clear();
    EXPECT_TRUE(at::equal(model->Features(Pixels(large), context).back(), Coarsest(alone)));
  }
}

// A classifier is trained at one size: there another is still refused (static_key_options.cc).
TEST(DenseTasksTest, AClassifiersStaticKeysAreOfItsOwnMap) {
  ModelDescription description{
      .backbone = "skaformer_s18", .image_height = 64, .image_width = 96, .random_weights_seed = 1};
  const at::Tensor keys =
      LoadBackbone(description)->named_parameters()["stages.1.blocks.0.token_mixer.k"];
  EXPECT_THAT(keys.sizes(), ElementsAre(4, 8 * 12, 32));
}

// A plain backbone too, where all of its tokens lie on the map.
TEST(DenseTasksTest, APlainBackbonesStaticKeysAreThoseOfItsPublishedMap) {
  const at::Tensor keys = LoadBackbone(Detector("demo_frame_64", "ska", {72, 104}))
                              ->named_parameters()["backbone.blocks.0.attn.k"];
  EXPECT_THAT(keys.sizes(), ElementsAre(4, 8 * 8, 32));
  const at::Tensor with_class_token = LoadBackbone(Detector("vit_demo_patch8_64", "ska", {72, 104}))
                                          ->named_parameters()["backbone.blocks.0.attn.k"];
  EXPECT_THAT(with_class_token.sizes(), ElementsAre(4, 9 * 13 + 1, 32));
}

}  // namespace
}  // namespace fovea::models
