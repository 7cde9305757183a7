// That no module keeps a tensor alive past its use: what a pass needs at most.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/linear/linear_chain.h"
#include "kernels/memory/memory_ledger.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "tests/kernels/scoped_choose.h"
#include "tests/kernels/variants.h"

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
    // Without the convolutions: residual, hidden map, product.
    {"linglo_b0_wo_c", 3136, 32, 1 + 8 + 1},
    {"linglo_wo_ch", 196, 150, 1 + 8 + 1},
    // Residual; 3x3 grouped convolution between two hidden maps of twice the channels.
    {"visformer_tiny", 784, 96, 1 + 2 + 2},
    // Residual, queries, keys, values; the logits of eight heads before and after a step.
    {"cait_s24_224", 196, 384, 4 + 2 * 8 * 196 / 384.0},
    // The stem: a convolution between two maps of 192 x 192 x 64.
    {"volo_d1_384", 2304, 192, 2 * 192 * 192 * 64 / (2304 * 192.0)},
    // The first token transformer: queries, keys, values; what they mix, the values alone, the sum.
    {"t2t_vit_t_19", 3136, 64, 3 + 3},
    // The stem: a convolution of 224 x 224, its pooled map, and the 64-bit indices that LibTorch's
    // pooling writes.
    {"so_vit_7", 112 * 112, 64, 4 + 1 + 2},
};

// Of each attention, in one frame: maps of 64 x 128. Static keys and key-only attention need less
// than the MLP, which holds the residual, a hidden map of twice the channels and the product. What
// looks along rows and along columns mixes twice, or joins two halves.
struct AttentionPeak {
  const char* attention;
  double maps;
};
constexpr AttentionPeak kAttentionPeaks[] = {
    {"dense", kAttention},
    {"knn:k=0.5", kAttention},
    {"shifted_window", kAttention},
    {"aewin", kAttention},
    {"conv", kAttention},
    {"axial", 1 + kAttention},
    {"criss_cross", 1 + kAttention},
    {"pale", 1 + kAttention},
    {"cross_shaped", 1 + kAttention},
    {"ska", 4},
    {"cska", 4},
    {"key_only", 4},
};

// In bytes; linear layers run by `way`, one after the other or tile by tile. Attention runs by
// panels unless told: on AMX's tiles each thread also has a head's keys and values as tiles read
// them.
double PeakOf(const ModelDescription& description, int64_t images, const char* way,
              bool tiles = false) {
  // The key-only layer's way by which its weights are not made for each image.
  const std::string choices = std::string("linear_fp32=") + way + ",linear_fp32_c768=" + way +
                              ",key_only_layer_fp32_n64_c128=half_folded," +
                              kernels::ForcedWays(tiles);
  const kernels::ScopedChoose choose(choices);
  const std::unique_ptr<Model> model = LoadModel(description);
  model->Prepare(c10::kCPU, Precision::kFp32);
  const at::Tensor pixels =
      at::randn({images, 3, model->info().image_height, model->info().image_width});
  ForwardContext context;
  const kernels::MemoryLedger ledger;
  model->Run(pixels, context);
  return static_cast<double>(ledger.peak_bytes());
}

class PassPeakTest : public ::testing::TestWithParam<Peak> {
 protected:
  void SetUp() override {
    if (kernels::simd::BestIsa() == kernels::simd::Isa::kNone) {
      GTEST_SKIP() << "the references keep all logits";
    }
  }
  // In maps.
  double PeakBy(const char* way, int64_t scratch) const {
    constexpr int64_t kImages = 4;
    const auto& [backbone, tokens, channels, maps] = GetParam();
    const auto map = static_cast<double>(kImages * tokens * channels * sizeof(float));
    const double peak = PeakOf({.backbone = backbone, .random_weights_seed = 1}, kImages, way);
    return (peak - static_cast<double>(scratch)) / map;
  }
};

TEST_P(PassPeakTest, LivesOnWhatIsStillUsed) {
  EXPECT_LE(PeakBy("onednn", 0), GetParam().maps + 0.5);
}

// The middle of an MLP is not stored then, only tiles of it.
TEST_P(PassPeakTest, IsNotMoreTileByTile) {
  if (!kernels::HasProducts(kernels::Products::kFp32)) {
    GTEST_SKIP() << "this processor does not run linear layers tile by tile";
  }
  const double least = GetParam().maps == kMlp ? kAttention : GetParam().maps;
  EXPECT_LE(PeakBy("tiles", at::get_num_threads() * kernels::kChainScratch), least + 0.5);
}

INSTANTIATE_TEST_SUITE_P(Models, PassPeakTest, ::testing::ValuesIn(kPeaks),
                         [](const auto& info) { return std::string(info.param.backbone); });

TEST(PassMemoryTest, NoAttentionHoldsMoreMapsThanItReads) {
  if (kernels::simd::BestIsa() == kernels::simd::Isa::kNone) {
    GTEST_SKIP() << "the references keep all logits";
  }
  constexpr int64_t kImages = 16;
  constexpr double kMap = kImages * 64 * 128 * sizeof(float);
  for (const auto& [attention, maps] : kAttentionPeaks) {
    const double peak =
        PeakOf({.backbone = "demo_frame_64", .attention = {attention}, .random_weights_seed = 1},
               kImages, "onednn");
    EXPECT_LE(peak / kMap, maps + 0.5) << attention;
    EXPECT_GE(peak / kMap, maps - 0.5) << attention;  // or the bound is not its own
  }
}

TEST(PassMemoryTest, OnTilesEachThreadHasScratchBesides) {
  if (!kernels::simd::HasAmxTiles()) GTEST_SKIP() << "this processor lacks AMX";
  constexpr double kMap = 64 * 128 * sizeof(float);
  const double peak =
      PeakOf({.backbone = "demo_frame_64", .attention = {"dense"}, .random_weights_seed = 1},
             /*images=*/1, "onednn", /*tiles=*/true);
  const at::Tensor head = at::empty({1, 4, 64, 32});
  const int64_t scratch = kernels::attend::TilesScratchBytes(
      kernels::attend::MakeTokenSetsJob(head, head, head, std::nullopt, /*scale=*/1, head));
  const auto all = static_cast<double>(at::get_num_threads() * scratch);
  EXPECT_LE((peak - all) / kMap, kAttention + 0.5);
  EXPECT_GE((peak - all) / kMap, kAttention - 0.5);
}

}  // namespace
}  // namespace fovea::models
