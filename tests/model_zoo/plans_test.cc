// Plans: a loaded model at input sizes other than its own.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "model_zoo/backbones/backbone_weights.h"
#include "model_zoo/registry/load.h"
#include "tests/model_zoo/errors.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;

at::Tensor Pixels(int64_t images, const ImageSize& size) {
  return at::randn({images, 3, size.height, size.width},
                   at::make_generator<at::CPUGeneratorImpl>(7));
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

ModelDescription Seeded(std::string backbone, std::vector<std::string> attention = {}) {
  return {
      .backbone = std::move(backbone), .attention = std::move(attention), .random_weights_seed = 1};
}

// One backbone of each way in which a size shows: learned positions, sines, stored maps, tables of
// windows, static keys, folded norms, weights for large maps.
struct Sized {
  const char* backbone;
  std::vector<std::string> attention;
  std::vector<ImageSize> sizes;
};

std::vector<Sized> AllSized() {
  const std::vector<ImageSize> sizes = {{224, 448}, {160, 192}};
  const std::vector<ImageSize> frame = {{64, 128}, {48, 72}};
  const std::vector<ImageSize> small = {{32, 64}, {40, 24}};
  return {
      {"vit_small_32", {}, small},
      {"vit_small_32", {"ska:interpolate"}, small},
      {"vit_small_32", {"cska:interpolate"}, small},
      {"cait_small_32", {}, small},
      {"swin_tiny_32", {}, small},
      {"demo_frame_64", {"aewin"}, frame},
      {"demo_frame_64", {"aewin/knn:k=0.5"}, frame},
      {"cvt_13_32", {}, small},
      {"so_vit_7", {}, sizes},
      {"t2t_vit_t_19", {}, sizes},
      {"tnt_s_patch16_224", {}, sizes},
      {"pit_b_224", {}, sizes},
      {"visformer_tiny", {}, sizes},
      {"volo_d1_384", {}, sizes},
      {"linglo_b0", {}, sizes},
      {"resnet50", {}, {{320, 224}, {160, 192}}},  // one is large enough for Winograd's algorithm
      {"linglo_b0_wo_c", {}, sizes}};
}

class PlansTest : public ::testing::TestWithParam<Sized> {
 protected:
  ~PlansTest() override { std::filesystem::remove(path_); }

  // The described model, read from a file of seeded weights.
  ModelDescription FromFile() {
    ModelDescription description = Seeded(GetParam().backbone, GetParam().attention);
    SaveWeights(path_, *LoadBackbone(description), at::kFloat);
    description.random_weights_seed.reset();
    description.weights = path_;
    return description;
  }

  const std::filesystem::path path_ = std::filesystem::path(::testing::TempDir()) /
                                      ("plans_" + std::to_string(::getpid()) + ".safetensors");
};

TEST_P(PlansTest, APlanIsTheModelThatWouldBeLoadedAtItsSize) {
  ModelDescription description = FromFile();
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    description.precision = precision;
    ModelDescription planned = description;
    planned.further_sizes = GetParam().sizes;
    const std::unique_ptr<Model> model = Prepared(planned);
    for (const ImageSize& size : GetParam().sizes) {
      ModelDescription loaded = description;
      loaded.image_height = size.height;
      loaded.image_width = size.width;
      const at::Tensor pixels = Pixels(2, size);
      EXPECT_TRUE(at::equal(Logits(*model, pixels), Logits(*Prepared(loaded), pixels)))
          << size.height << "x" << size.width;
    }
    // And it takes nothing from the model itself.
    const std::unique_ptr<Model> alone = Prepared(description);
    const at::Tensor pixels = Pixels(2, {model->info().image_height, model->info().image_width});
    EXPECT_TRUE(at::equal(Logits(*model, pixels), Logits(*alone, pixels)));
    // A plan holds what follows from its size and no weights: each less than a tenth of them, but
    // for static keys, which follow from the size themselves.
    const bool keys =
        std::string(planned.attention.empty() ? "" : planned.attention[0]).find("ska") !=
        std::string::npos;
    if (!keys) {
      EXPECT_LT(model->weight_bytes() - alone->weight_bytes(), alone->weight_bytes() / 5);
    }
    EXPECT_GE(model->weight_bytes(), alone->weight_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PlansTest, ::testing::ValuesIn(AllSized()),
                         [](const ::testing::TestParamInfo<Sized>& test) {
                           std::string name = test.param.backbone;
                           for (const std::string& text : test.param.attention) name += "_" + text;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST(PlanTest, FeaturesTakeTheSizesToo) {
  ModelDescription description = Seeded("swin_tiny_32");
  description.further_sizes = {{40, 24}};
  const std::unique_ptr<Model> model = Prepared(description);
  ForwardContext context;
  const std::vector<at::Tensor> maps = model->Features(Pixels(1, {40, 24}), context);
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0].sizes(), at::IntArrayRef({1, 96, 10, 6}));
  EXPECT_EQ(maps[2].sizes(), at::IntArrayRef({1, 384, 3, 2}));
}

TEST(PlanTest, OtherSizesAreRefusedAndTheirsAreNamed) {
  ModelDescription description = Seeded("vit_small_32");
  description.further_sizes = {{64, 32}};
  const std::unique_ptr<Model> model = Prepared(description);
  EXPECT_THAT(ErrorOf([&] {
                Logits(*model, Pixels(1, {64, 64}));
              }),
              HasSubstr("takes FP32 [N, 3, 32, 32] or [N, 3, 64, 32], not"));
}

TEST(PlanTest, BeforePrepareAModelHasItsOwnSizeOnly) {
  ModelDescription description = Seeded("vit_small_32");
  description.further_sizes = {{64, 32}};
  const std::unique_ptr<Model> model = LoadModel(description);
  EXPECT_THAT(ErrorOf([&] {
                Logits(*model, Pixels(1, {64, 32}));
              }),
              HasSubstr("takes FP32 [N, 3, 32, 32], not"));
}

TEST(PlanTest, ASizeAtWhichTheModelCannotRunIsRefusedInWordsWhenItIsPrepared) {
  ModelDescription description = Seeded("vit_small_32", {"knn:k=50"});
  description.further_sizes = {{64, 32}, {16, 16}};
  EXPECT_EQ(ErrorOf([&] { Prepared(description); }),
            "vit_small_32 cannot run at 16x16: attention 'knn:k=50' cannot stand in vit_small_32: "
            "k=50, but a query sees only 17 keys");
  description = Seeded("vit_small_32");
  description.further_sizes = {{30, 32}};
  EXPECT_THAT(ErrorOf([&] { Prepared(description); }),
              HasSubstr("vit_small_32 cannot run at 30x32: vit_small_32 cuts images into patches"));
  description = Seeded("identity");
  description.further_sizes = {{30, 32}};
  EXPECT_THAT(ErrorOf([&] { Prepared(description); }),
              HasSubstr("its outputs follow from its input size"));
}

TEST(PlanTest, AListOfSizesThatMakesNoSenseIsRefused) {
  ModelDescription description = Seeded("vit_small_32");
  description.further_sizes = {{32, 32}};
  EXPECT_EQ(ErrorOf([&] { LoadModel(description); }),
            "the input size 32x32 is listed twice, or the model's own");
  description.further_sizes = {{64, 32}, {64, 32}};
  EXPECT_THAT(ErrorOf([&] { LoadModel(description); }), HasSubstr("64x32 is listed twice"));
  description.further_sizes = {{0, 32}};
  EXPECT_EQ(ErrorOf([&] { LoadModel(description); }), "0x32 is no input size");
  description.further_sizes.clear();
  for (size_t i = 0; i <= kMaxFurtherSizes; ++i) {
    description.further_sizes.push_back({64 + 4 * static_cast<int64_t>(i), 64});
  }
  EXPECT_EQ(ErrorOf([&] { LoadModel(description); }),
            "a model runs at no more than 32 input sizes besides its own");
}

TEST(PlanTest, ThreadsRunThePlansOfOneModel) {
  ModelDescription description = Seeded("swin_tiny_32");
  description.further_sizes = {{40, 24}, {64, 32}};
  const std::unique_ptr<Model> model = Prepared(description);
  const std::vector<ImageSize> sizes = {{32, 32}, {40, 24}, {64, 32}};
  std::vector<at::Tensor> expected;
  for (const ImageSize& size : sizes) expected.push_back(Logits(*model, Pixels(2, size)));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (size_t i = 0; i < 2 * sizes.size(); ++i) {
    threads.emplace_back([&, i] {
      const ImageSize& size = sizes[i % sizes.size()];
      for (int run = 0; run < 5; ++run) {
        const at::Tensor logits = Logits(*model, Pixels(2, size));
        if (!at::allclose(logits, expected[i % sizes.size()], 1e-4, 1e-5)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace fovea::models
