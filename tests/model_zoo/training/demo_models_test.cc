// What the bundled models were made to do, measured through the server's own reader, the zoo's
// loader and Prepare.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "model_zoo/folder/describe_model_folder.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "model_zoo/training/data/loading/shape_loader.h"
#include "model_zoo/training/tasks/shape_evaluation.h"
#include "server/imaging/decode.h"
#include "server/imaging/probe.h"

namespace fovea::models::training {
namespace {

const std::filesystem::path kSource = FOVEA_SOURCE_DIR;
const std::filesystem::path kDemo = kSource / "model_zoo/demo";

std::unique_ptr<Model> Prepared(const std::string& name) {
  const ModelDescription description = DescribeModelFolder(kDemo / name);
  std::unique_ptr<Model> model = LoadModel(description);
  model->Prepare(c10::kCPU, description.precision);
  return model;
}

class DemoModelTest : public ::testing::TestWithParam<std::pair<const char*, double>> {};

// A stream that neither the training nor the choice of its options has seen.
TEST_P(DemoModelTest, NamesNewPictures) {
  const auto& [name, share] = GetParam();
  const auto model = Prepared(name);
  const Score score = Evaluate(ClassifierOf(*model), /*seed=*/1, Stream::kTest, 1'000);
  EXPECT_GE(score.accuracy(), share);
}

INSTANTIATE_TEST_SUITE_P(
    Trained, DemoModelTest,
    ::testing::Values(std::pair("shapes", 0.95), std::pair("shapes_with_knn", 0.95),
                      std::pair("frame_dense", 0.83), std::pair("frame_aewin", 0.9),
                      std::pair("frame_cska", 0.92), std::pair("frame_conv", 0.92),
                      std::pair("frame_key_only", 0.68)),
    [](const auto& info) { return std::string(info.param.first); });

TEST(DemoModelsTest, TheKnnTwinRunsTheDenseModelsWeights) {
  EXPECT_TRUE(std::filesystem::equivalent(DescribeModelFolder(kDemo / "shapes_knn").weights,
                                          DescribeModelFolder(kDemo / "shapes").weights));
  const auto twin = Prepared("shapes_knn");
  EXPECT_EQ(twin->info().attention, Prepared("shapes_with_knn")->info().attention);
  // The weights were not trained for it: how far it falls is what the demonstration shows.
  EXPECT_GE(Evaluate(ClassifierOf(*twin), 1, Stream::kTest, 500).accuracy(), 0.5);
}

TEST(DemoModelsTest, EveryTaskOfScenesHasEachAttention) {
  struct Kind {
    std::string name, head;
    size_t outputs;
  };
  for (const Kind& kind : {Kind{"detector", "retinanet", 4}, Kind{"instances", "mask_rcnn", 5},
                           Kind{"segmenter", "semantic_fpn", 1}}) {
    for (const std::string attention : {"dense", "aewin", "cska", "key_only"}) {
      const std::string name = kind.name + "_" + attention;
      EXPECT_EQ(DescribeModelFolder(kDemo / name).head, kind.head) << name;
      const auto model = Prepared(name);
      EXPECT_EQ(model->info().backbone, "linglo_demo") << name;
      EXPECT_THAT(model->info().attention, ::testing::StartsWith(attention)) << name;
      EXPECT_EQ(model->info().outputs.size(), kind.outputs) << name;
    }
  }
}

TEST(DemoModelsTest, TheRepositoryStaysSmall) {
  uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(kDemo)) {
    if (!file.is_regular_file()) continue;
    EXPECT_LE(file.file_size(), 4'000'000u) << file.path();
    bytes += file.file_size();
  }
  EXPECT_LE(bytes, 40'000'000u);
}

RgbImage Decoded(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  const Bytes encoded = std::as_bytes(std::span(text));
  const ImageInfo info = ProbeImage(encoded, {}).value();
  return DecodeImage(encoded, info).value();
}

// As the server prepares an image: the shorter side to the model's, antialiased, then the centre.
at::Tensor PixelsOf(const std::filesystem::path& file, int64_t side) {
  const RgbImage rgb = Decoded(file);
  const at::Tensor image = at::from_blob(rgb.pixels.get(), {1, rgb.height, rgb.width, 3}, at::kByte)
                               .permute({0, 3, 1, 2});
  const double scale = static_cast<double>(side) / std::min(rgb.height, rgb.width);
  const int64_t height = std::lround(rgb.height * scale), width = std::lround(rgb.width * scale);
  const at::Tensor resized =
      at::_upsample_bilinear2d_aa(image.to(at::kFloat), {height, width}, /*align_corners=*/false)
          .round();
  return resized.slice(2, (height - side) / 2, (height - side) / 2 + side)
      .slice(3, (width - side) / 2, (width - side) / 2 + side)
      .div(127.5)
      .sub(1.0)
      .contiguous();
}

TEST(DemoModelsTest, BothTrainedModelsNameTheExamplePictures) {
  for (const char* name : {"shapes", "shapes_with_knn"}) {
    const auto model = Prepared(name);
    int pictures = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kSource / "client/examples")) {
      const std::filesystem::path& file = entry.path();
      if (file.extension() != ".jpg" && file.extension() != ".png") continue;
      ForwardContext context;
      const at::Tensor logits =
          model->Run(PixelsOf(file, model->info().image_height), context).at(0);
      EXPECT_EQ(Name(static_cast<Shape>(logits.argmax().item<int64_t>())), file.stem().string())
          << name << " on " << file.filename();
      ++pictures;
    }
    EXPECT_GE(pictures, 4);
  }
}

}  // namespace
}  // namespace fovea::models::training
