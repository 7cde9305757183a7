// That a warm pass of a model allocates nothing but its outputs, and that models in an arena answer
// as without.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/memory/memory_ledger.h"
#include "kernels/memory/pass_arena.h"
#include "model_zoo/model.h"
#include "model_zoo/registry/load.h"
#include "tests/kernels/counting_allocator.h"
#include "tests/model_zoo/small_detector.h"

namespace fovea::models {
namespace {

struct Tried {
  const char* name;
  const char* backbone;
  const char* attention;  // empty: its own
  Precision precision = Precision::kFp32;
};

class ModelInArenaTest : public ::testing::TestWithParam<Tried> {
 protected:
  void SetUp() override {
    ModelDescription description{.backbone = GetParam().backbone, .random_weights_seed = 1};
    if (*GetParam().attention != '\0') description.attention = {GetParam().attention};
    model_ = LoadModel(description);
    model_->Prepare(c10::kCPU, GetParam().precision);
  }
  at::Tensor Pixels(int64_t images) const {
    return at::randn({images, 3, model_->info().image_height, model_->info().image_width});
  }
  std::vector<at::Tensor> InArena(const at::Tensor& pixels) {
    kernels::PassArena::Scope pass(arena_, pixels);
    std::vector<at::Tensor> outputs = model_->RunBatch(pixels, context_);
    pass.Complete();
    gaps_ = pass.gap_bytes();
    return outputs;
  }

  std::unique_ptr<Model> model_;
  kernels::PassArena arena_;
  ForwardContext context_;
  int64_t gaps_ = 0;
};

// Counted is what LibTorch's allocator is asked for, on any thread, from the pixels to the outputs.
TEST_P(ModelInArenaTest, AWarmPassAllocatesItsOutputsAlone) {
  const at::Tensor pixels = Pixels(2);
  // A first one makes what later ones use, and is recorded as it is.
  for (int i = 0; i < 3; ++i) InArena(pixels);
  const kernels::CountingAllocator counting;
  const std::vector<at::Tensor> outputs = InArena(pixels);
  const auto all = counting.all();
  const auto outside = counting.Outside(arena_.memory());
  EXPECT_GT(all.size(), 20);
  ASSERT_EQ(outside.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(outside[i].address, outputs[i].const_data_ptr());
  }
  EXPECT_LE(arena_.passes().recorded, 2);
}

TEST_P(ModelInArenaTest, AnswersAreTheSameBitForBit) {
  std::vector<std::vector<at::Tensor>> answers, expected;
  for (int pass = 0; pass < 5; ++pass) {
    for (const int64_t images : {1, 2}) {
      const at::Tensor pixels = Pixels(images);
      answers.push_back(InArena(pixels));
      expected.push_back(model_->RunBatch(pixels, context_));
    }
  }
  EXPECT_GE(arena_.passes().as_planned, 6);
  for (size_t pass = 0; pass < answers.size(); ++pass) {
    ASSERT_EQ(answers[pass].size(), expected[pass].size());
    for (size_t i = 0; i < answers[pass].size(); ++i) {
      EXPECT_TRUE(at::equal(answers[pass][i], expected[pass][i])) << pass;
    }
  }
}

TEST_P(ModelInArenaTest, HoldsLittleMoreThanTheLedgerSees) {
  const at::Tensor pixels = Pixels(2);
  const auto peak = [&](auto run) {
    const kernels::MemoryLedger ledger;
    run(pixels);
    return ledger.peak_bytes();
  };
  const auto without = [&](const at::Tensor& input) { model_->RunBatch(input, context_); };
  peak(without);
  const int64_t expected = peak(without);
  for (int i = 0; i < 4; ++i) {
    const auto in_arena = [&](const at::Tensor& input) { InArena(input); };
    const auto seen = static_cast<double>(peak(in_arena));
    if (i == 0) continue;  // recorded; it may make what later ones use
    EXPECT_NEAR(seen, static_cast<double>(expected), 0.05 * static_cast<double>(expected));
  }
  const double slab = static_cast<double>(arena_.memory().bytes()) / static_cast<double>(expected);
  std::cout << GetParam().name << ": the slab is " << slab << " times the peak\n";
  EXPECT_LE(slab, 1.1);
  EXPECT_LE(static_cast<double>(gaps_), 0.1 * static_cast<double>(expected));
}

constexpr Tried kTried[] = {
    {"deit_tiny", "deit_tiny_patch16_224", ""},
    {"deit_tiny_bf16", "deit_tiny_patch16_224", "", Precision::kBf16},
    {"deit_tiny_int8", "deit_tiny_patch16_224", "", Precision::kInt8},
    {"deit_tiny_knn", "deit_tiny_patch16_224", "knn:k=0.5"},
    {"swin_tiny", "swin_tiny_patch4_window7_224", ""},
    {"linglo_b1", "linglo_b1", ""},
    {"linglo_b0_bf16", "linglo_b0", "", Precision::kBf16},
    {"pit_b", "pit_b_224", ""},
    {"demo_frame_aewin", "demo_frame_64", "aewin"},
};
INSTANTIATE_TEST_SUITE_P(Models, ModelInArenaTest, ::testing::ValuesIn(kTried),
                         [](const auto& info) { return std::string(info.param.name); });

// What a detector allocates follows from what it finds.
TEST(DetectorInArenaTest, AnswersAreTheSameWhateverIsFound) {
  ModelDescription description = SmallMaskRcnn();
  description.detection.score_threshold = 0.05;
  description.head_channels = 32;
  const auto model = LoadModel(description);
  model->Prepare(c10::kCPU, Precision::kFp32);
  kernels::PassArena arena;
  ForwardContext context;
  for (int pass = 0; pass < 8; ++pass) {
    const at::Tensor pixels = at::randn({1 + pass % 2, 3, 64, 64}).mul_(pass);
    const std::vector<at::Tensor> expected = model->Run(pixels, context);
    kernels::PassArena::Scope scope(arena, pixels);
    const std::vector<at::Tensor> answers = model->Run(pixels, context);
    scope.Complete();
    ASSERT_EQ(answers.size(), expected.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(at::equal(answers[i], expected[i])) << "pass " << pass << ", output " << i;
    }
  }
  const auto& passes = arena.passes();
  std::cout << "recorded " << passes.recorded << ", as planned " << passes.as_planned
            << ", deviated " << passes.deviated << '\n';
  EXPECT_GT(passes.as_planned + passes.deviated, 0);
}

// Bytes of this process that huge pages are asked for.
int64_t AdvisedBytes() {
  std::ifstream smaps("/proc/self/smaps");
  int64_t advised = 0, kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key == "Size:") words >> kib;
    if (key == "VmFlags:" && line.find(" hg") != line.npos) advised += kib << 10;
  }
  return advised;
}

// In a process of its own: here a model has been loaded before.
TEST(ModelsInHugePagesTest, LoadingTheFirstModelPutsItsLargeWeightsThere) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) {
    GTEST_SKIP() << "this kernel has no transparent huge pages";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const int64_t before = AdvisedBytes();
        const std::unique_ptr<Model> model =
            LoadModel({.backbone = "deit_small_patch16_224", .random_weights_seed = 1});
        // Of each of twelve blocks the MLP's two matrices, 384 x 1536 in FP32.
        const int64_t large = AdvisedBytes() - before;
        std::cerr << before << " and " << large << " bytes\n";
        _exit(before == 0 && large >= 12 * 2 * 384 * 1536 * 4 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "0 and");
}

}  // namespace
}  // namespace fovea::models
