// That no module keeps a tensor alive past its use: what a pass needs at most.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "kernels/measures/memory_ledger.h"
#include "model_zoo/model.h"

namespace fovea::models {
namespace {

// `maps`: the peak of a prepared pass in maps of `tokens` x `channels` numbers, those of the
// stage where it lies.
struct Peak {
  const char* backbone;
  int64_t tokens;
  int64_t channels;
  double maps;
};

// The usual peak: beside the MLP's hidden map, of four times the tokens' channels, lives the
// residual, and then the product.
constexpr double kMlp = 6;
// Where the MLP is narrow: beside the residual live queries, keys, values and what they mix.
constexpr double kAttention = 5;

constexpr Peak kPeaks[] = {
    {"deit_tiny_patch16_224", 197, 192, kMlp},
    {"swin_tiny_patch4_window7_224", 3136, 96, kMlp},
    {"aewin_tiny_224", 3136, 64, kMlp},
    {"cswin_tiny_224", 3136, 64, kMlp},
    {"pale_tiny_224", 3136, 64, kMlp},
    {"cvt_13", 3136, 64, kMlp},
    {"pit_b_224", 962, 256, kMlp},
    {"twins_svt_base", 3136, 96, kMlp},
    {"caformer_s18", 3136, 64, kMlp},
    // The other transformer's tokens, as many numbers, wait.
    {"tnt_s_patch16_224", 197, 384, 1 + kMlp},
    {"vit_small_32", 65, 512, kAttention},
    // Residual, hidden map of eight times the channels, and what the convolutions make of it.
    {"linglo_b0", 3136, 32, 1 + 8 + 8},
    // Residual; 3x3 grouped convolution between two hidden maps of twice the channels.
    {"visformer_tiny", 784, 96, 1 + 2 + 2},
    // Residual, queries, keys, values; the logits of eight heads before and after a step.
    {"cait_s24_224", 196, 384, 4 + 2 * 8 * 196 / 384.0},
    // The stem: a convolution between two maps of 192 x 192 x 64.
    {"volo_d1_384", 2304, 192, 2 * 192 * 192 * 64 / (2304 * 192.0)},
    // The first token transformer: queries, keys, values; what they mix, the values alone, the sum.
    {"t2t_vit_t_19", 3136, 64, 3 + 3},
};

class PassMemoryTest : public ::testing::TestWithParam<Peak> {};

TEST_P(PassMemoryTest, LivesOnWhatIsStillUsed) {
  const auto& [backbone, tokens, channels, maps] = GetParam();
  constexpr int64_t kImages = 4;
  const std::unique_ptr<Model> model = LoadModel({.backbone = backbone, .random_weights_seed = 1});
  model->Prepare(c10::kCPU, Precision::kFp32);
  const at::Tensor pixels =
      at::randn({kImages, 3, model->info().image_height, model->info().image_width});
  ForwardContext context;
  const kernels::MemoryLedger ledger;
  model->Run(pixels, context);
  const auto map = static_cast<double>(kImages * tokens * channels * sizeof(float));
  EXPECT_LE(static_cast<double>(ledger.peak_bytes()) / map, maps + 0.5);  // threads have scratch
}

INSTANTIATE_TEST_SUITE_P(Models, PassMemoryTest, ::testing::ValuesIn(kPeaks),
                         [](const auto& info) { return std::string(info.param.backbone); });

}  // namespace
}  // namespace fovea::models
