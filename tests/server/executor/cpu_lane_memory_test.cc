// What lanes of the CPU keep of their passes, and when they give it back.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/memory/memory_ledger.h"
#include "model_zoo/model.h"
#include "tests/resident_bytes.h"
#include "tests/server/executor/batch_executor_testing.h"

namespace fovea {
namespace {

constexpr int64_t kHiddenBytes = 32 << 20;  // of an image
constexpr int64_t kSome = 4 << 20;          // that a process takes beside

// Sums pixels by way of a large hidden map.
class WideModel final : public OneLogitModel {
 public:
  std::vector<at::Tensor> RunBatch(const at::Tensor& pixels,
                                   models::ForwardContext&) const override {
    constexpr int64_t kWidth = kHiddenBytes / int64_t{sizeof(float)};
    at::Tensor hidden = at::empty({pixels.size(0), kWidth}, at::kFloat);
    const at::Tensor sums = pixels.sum({1, 2, 3}).unsqueeze(1);
    hidden.zero_().narrow(1, kWidth - 1, 1).copy_(sums);
    if (on_run_) on_run_(hidden);
    return {hidden.narrow(1, kWidth - 1, 1).clone()};
  }

  std::function<void(const at::Tensor& hidden)> on_run_;
};

class CpuLaneMemoryTest : public ::testing::Test {
 protected:
  void Load(int lanes, int max_batch_size) {
    auto model = std::make_unique<WideModel>();
    model_ = model.get();
    auto executor = BatchExecutor::CreateWithModel(
        std::move(model),
        {.max_batch_size = max_batch_size,
         .arrangement = {.lanes = lanes, .threads_per_batch = {1}}},
        MakeCpuDevice({.threads = lanes, .lanes = lanes}), SteadyClock(), nullptr);
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
  }
  // One image; its answer's peak. Its logit is checked.
  int64_t RunOne(int lane, float value) {
    Outcome outcome;
    std::vector<std::unique_ptr<InferenceTask>> tasks;
    tasks.push_back(MakeTask({value}, outcome));
    executor_->Run(lane, 1, std::move(tasks), nullptr);
    EXPECT_EQ(outcome.value(), value * kNumbers);
    return (*outcome.result)->batch_peak_bytes;
  }

  const int64_t before_ = ResidentBytes();
  WideModel* model_ = nullptr;
  std::unique_ptr<BatchExecutor> executor_;
};

TEST_F(CpuLaneMemoryTest, StaysFromPassToPass) {
  Load(1, 1);
  EXPECT_GE(ResidentBytes() - before_, kHiddenBytes);
  std::vector<const void*> places;
  model_->on_run_ = [&](const at::Tensor& hidden) { places.push_back(hidden.const_data_ptr()); };
  for (int i = 0; i < 3; ++i) {
    RunOne(0, static_cast<float>(i));
    EXPECT_EQ(places[i], places[0]);
    EXPECT_GE(ResidentBytes() - before_, kHiddenBytes);
  }
  if (kFreedMemoryIsGivenBack) {
    EXPECT_LE(ResidentBytes() - before_, kHiddenBytes + kSome);
  }
}

TEST_F(CpuLaneMemoryTest, AnswersSayWhatAPassHoldsAsWithoutAnArena) {
  Load(1, 1);
  kernels::MemoryLedger ledger;
  models::ForwardContext context;
  model_->RunBatch(at::zeros({1, 3, kSide, kSide}), context);
  // The ledger's includes the input.
  EXPECT_GE(RunOne(0, 1), ledger.peak_bytes());
  EXPECT_LE(RunOne(0, 1), ledger.peak_bytes() * 1.05);
  EXPECT_EQ(RunOne(0, 1), RunOne(0, 2));
  EXPECT_EQ(executor_->peak_activation_bytes(), RunOne(0, 1));
}

TEST_F(CpuLaneMemoryTest, GoesWithTheModel) {
  Load(2, 2);
  RunOne(0, 1);
  RunOne(1, 2);
  executor_.reset();
  EXPECT_LT(ResidentBytes() - before_, kHiddenBytes / 2);
}

TEST_F(CpuLaneMemoryTest, IsGivenBackWhenNoLaneHasAnythingToRun) {
  Load(2, 1);
  const auto idle_on_a_thread = [&] {
    std::thread([&] { executor_->device().IdleThread(); }).join();
  };
  // Each lane has a thread of its own.
  std::thread first([&] {
    RunOne(0, 1);
    executor_->device().IdleThread();
    EXPECT_GE(ResidentBytes() - before_, kHiddenBytes) << "the other may be at work";
    RunOne(0, 2);
    idle_on_a_thread();
    EXPECT_GE(ResidentBytes() - before_, kHiddenBytes) << "this one was";
    executor_->device().IdleThread();
    EXPECT_LT(ResidentBytes() - before_, kHiddenBytes / 2);
    RunOne(0, 3);
    EXPECT_GE(ResidentBytes() - before_, kHiddenBytes);
  });
  first.join();
}

TEST_F(CpuLaneMemoryTest, LanesThatRunAtTheSameTimeHaveTheirOwn) {
  Load(2, 1);
  constexpr int kBatches = 20;
  const auto run = [&](int lane) {
    for (int i = 0; i < kBatches; ++i) RunOne(lane, static_cast<float>(1 + lane * kBatches + i));
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  if (kFreedMemoryIsGivenBack) {
    EXPECT_LE(ResidentBytes() - before_, 2 * kHiddenBytes + kSome) << "a range for each";
  }
}

}  // namespace
}  // namespace fovea
