// That no module keeps a tensor alive past its use: what a pass needs at most.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "kernels/measures/memory_ledger.h"
#include "model_zoo/model.h"

namespace fovea::models {
namespace {

// Of a prepared model at this batch size, in maps of the first stage's tokens.
double PeakInTokenMaps(const std::string& backbone, int64_t tokens, int64_t channels) {
  constexpr int64_t kImages = 4;
  const std::unique_ptr<Model> model = LoadModel({.backbone = backbone, .random_weights_seed = 1});
  model->Prepare(c10::kCPU, Precision::kFp32);
  const at::Tensor pixels =
      at::randn({kImages, 3, model->info().image_height, model->info().image_width});
  ForwardContext context;
  const kernels::MemoryLedger ledger;
  model->Run(pixels, context);
  return static_cast<double>(ledger.peak_bytes()) /
         static_cast<double>(kImages * tokens * channels * sizeof(float));
}

class PassMemoryTest : public ::testing::TestWithParam<std::tuple<const char*, int64_t, int64_t>> {
};

// Beside the MLP's hidden map, of four times the tokens' channels, lives the residual, and then the
// product: six maps. Attention needs as many: residual, normalised tokens, queries, keys, values
// and what it mixes.
TEST_P(PassMemoryTest, SixMapsOfTokensAreEnough) {
  const auto& [backbone, tokens, channels] = GetParam();
  EXPECT_LE(PeakInTokenMaps(backbone, tokens, channels), 6.5);  // threads have scratch
}

INSTANTIATE_TEST_SUITE_P(Models, PassMemoryTest,
                         ::testing::Values(std::make_tuple("deit_tiny_patch16_224", 197, 192),
                                           std::make_tuple("swin_tiny_patch4_window7_224", 3136,
                                                           96),
                                           std::make_tuple("aewin_tiny_224", 3136, 64),
                                           std::make_tuple("cvt_13", 3136, 64)),
                         [](const auto& info) { return std::string(std::get<0>(info.param)); });

}  // namespace
}  // namespace fovea::models
