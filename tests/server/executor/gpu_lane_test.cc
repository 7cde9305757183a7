// Lanes of a GPU, on one that a test makes: what they give it to do, and in which order.
#include "server/executor/gpu_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/executor/gpus.h"
#include "tests/server/executor/batch_executor_testing.h"
#include "tests/server/executor/fake_gpu.h"

namespace fovea {
namespace {

using testing::ElementsAre;

TEST(BatchBucketsTest, ArePowersOfTwoAndTheLargestBatch) {
  EXPECT_THAT(BatchBuckets(1), ElementsAre(1));
  EXPECT_THAT(BatchBuckets(2), ElementsAre(2, 1));
  EXPECT_THAT(BatchBuckets(8), ElementsAre(8, 4, 2, 1));
  EXPECT_THAT(BatchBuckets(13), ElementsAre(13, 8, 4, 2, 1));
}

class GpuLaneTest : public BatchExecutorTest {
 protected:
  absl::Status LoadOnGpu(std::unique_ptr<SummingModel> model, int max_batch_size = 8,
                         int lanes = 1) {
    model_ = model.get();
    FOVEA_ASSIGN_OR_RETURN(
        executor_,
        BatchExecutor::CreateWithModel(
            std::move(model),
            {.max_batch_size = max_batch_size, .arrangement = {.gpus = {0}, .lanes = lanes}},
            MakeGpuDevice(std::make_shared<FakeGpu>(gpu_)), SteadyClock(),
            [this](const BatchSize& batch, Nanos) { timed_.push_back(batch.images); }));
    model_->batches_.clear();
    captures_ = gpu_->captures;
    return absl::OkStatus();
  }

  // A picture of one colour, as bytes.
  static std::unique_ptr<InferenceTask> BytesTask(uint8_t value, Outcome& outcome, int images = 1) {
    const std::string bytes(static_cast<size_t>(images * kNumbers), static_cast<char>(value));
    return std::make_unique<InferenceTask>(
        std::make_unique<InferenceRequest>(),
        ReceivedPixels{.data = ScatteredBytes::Copy(bytes), .normalised = false},
        BatchSize{.images = images}, 0,
        [&outcome](std::unique_ptr<InferenceTask>, absl::StatusOr<TaskResult> result) {
          outcome.result = std::move(result);
        });
  }
  // What the model makes of it.
  float SumOf(uint8_t value) const {
    const models::Preprocessing& preprocessing = executor_->preprocessing();
    double sum = 0;
    for (int channel = 0; channel < 3; ++channel) {
      sum += (value / 255.0 - preprocessing.mean[channel]) / preprocessing.std[channel];
    }
    return static_cast<float>(sum * kSide * kSide);
  }

  const std::shared_ptr<FakeGpuState> gpu_ = std::make_shared<FakeGpuState>();
  std::vector<int> timed_;  // batches of the warm-up, whose time was taken
  int captures_ = 0;        // of the warm-up
};

TEST_F(GpuLaneTest, RecordsItsWorkForEachBucketTheLargestFirst) {
  auto model = std::make_unique<SummingModel>();
  std::vector<int> warm_up;
  model->on_run_ = [&warm_up, raw = model.get()] { warm_up.push_back(raw->batches_.back()); };
  ASSERT_TRUE(LoadOnGpu(std::move(model), 6).ok());
  EXPECT_EQ(captures_, 4);
  EXPECT_THAT(timed_, ElementsAre(6, 2, 1));
  // One image to measure it; then each bucket once as it is, once to be recorded, and replayed
  // where its time is taken.
  EXPECT_THAT(warm_up, ElementsAre(1, 6, 6, 6, 4, 4, 2, 2, 2, 1, 1, 1));
}

TEST_F(GpuLaneTest, EachLaneRecordsItsOwnWork) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>(), 4, /*lanes=*/2).ok());
  EXPECT_EQ(captures_, 2 * 3);
  Outcome first, second;
  std::vector<std::unique_ptr<InferenceTask>> batch;
  batch.push_back(MakeTask({1, 2}, first));
  executor_->Run(1, 1, std::move(batch), nullptr);
  Run(MakeTask({3}, second));
  EXPECT_EQ(first.value(1), 2 * kNumbers);
  EXPECT_EQ(second.value(), 3 * kNumbers);
  EXPECT_EQ(gpu_->captures, captures_) << "nothing is recorded while somebody waits";
}

TEST_F(GpuLaneTest, ABatchRunsAsTheNextLargerBucketAndGivesItsOwnImagesOnly) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  Outcome all, first, second;
  Run(MakeTask({9, 9, 9, 9, 9, 9, 9, 9}, all));
  const int replays = gpu_->replays;
  Run(MakeTask({1, 2}, first), MakeTask({3}, second));
  EXPECT_EQ(gpu_->replays, replays + 1);
  EXPECT_EQ(model_->batches_.back(), 4);
  EXPECT_THAT((*first.result)->outputs[0].shape, ElementsAre(2, 1));
  EXPECT_EQ(first.value(0), kNumbers);
  EXPECT_EQ(first.value(1), 2 * kNumbers);
  EXPECT_EQ(second.value(), 3 * kNumbers);
  EXPECT_EQ((*second.result)->batch_size, 3);
}

// The GPU is slow, and everything of a lane is written again by the next batch.
TEST_F(GpuLaneTest, NothingIsTouchedBeforeTheGpuHasDoneWithIt) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  gpu_->delay_ms = 3;
  for (int round = 1; round <= 5; ++round) {
    Outcome outcome;
    Run(MakeTask({1.0f * round, 2.0f * round}, outcome));
    EXPECT_EQ(outcome.value(0), round * kNumbers);
    EXPECT_EQ(outcome.value(1), 2 * round * kNumbers);
  }
}

TEST_F(GpuLaneTest, BytesAreNormalisedThereAndMayShareABatchWithNumbers) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  Outcome grey[2], white, numbers;
  Run(BytesTask(128, grey[0]), BytesTask(255, white));
  Run(BytesTask(128, grey[1]), MakeTask({5}, numbers));
  EXPECT_NEAR(grey[0].value(), SumOf(128), 1e-4);
  EXPECT_NEAR(white.value(), SumOf(255), 1e-4);
  EXPECT_NEAR(grey[1].value(), grey[0].value(), 1e-5);
  EXPECT_EQ(numbers.value(), 5 * kNumbers);
}

TEST_F(GpuLaneTest, WhatAPictureDoesNotFillIsZeroBehindTheNormalisation) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  const auto small = [](int64_t height, int64_t width, Outcome& outcome) {
    ResizedImage image;
    image.rgb.assign(static_cast<size_t>(3 * height * width), 255);
    image.transform = ImageTransform::Identity(height, width);
    return std::make_unique<InferenceTask>(
        std::make_unique<InferenceRequest>(), DecodedPixels{{image}}, BatchSize{.images = 1}, 0,
        [&outcome](std::unique_ptr<InferenceTask>, absl::StatusOr<TaskResult> result) {
          outcome.result = std::move(result);
        });
  };
  Outcome before, low, narrow, whole;
  Run(BytesTask(7, before, /*images=*/4));  // what is left of it shines through nowhere
  Run(small(1, 2, low), small(2, 1, narrow), BytesTask(255, whole));
  EXPECT_NEAR(low.value(), SumOf(255) / 2, 1e-4);
  EXPECT_NEAR(narrow.value(), SumOf(255) / 2, 1e-4);
  EXPECT_NEAR(whole.value(), SumOf(255), 1e-4);
}

TEST_F(GpuLaneTest, TellsWhatTheGpuDidWhen) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  gpu_->delay_ms = 2;
  Outcome outcome;
  const Nanos start = SteadyClock().Now();
  Run(MakeTask({1}, outcome));
  const Nanos took = SteadyClock().Now() - start;
  ASSERT_TRUE((*outcome.result)->device_times.has_value());
  const DeviceTimes& times = *(*outcome.result)->device_times;
  // Each piece of work is late by two milliseconds, and so is each mark behind one.
  EXPECT_GE(times.h2d, 2 * 2 * kMillisecond);
  EXPECT_GE(times.kernels, 3 * 2 * kMillisecond);
  EXPECT_GE(times.d2h, 2 * 2 * kMillisecond);
  EXPECT_LE(times.h2d + times.kernels + times.d2h, took);
  EXPECT_EQ(observer_.last.device_times->kernels, times.kernels);
}

TEST_F(GpuLaneTest, AnswersSayWhatTheRecordedWorkHolds) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  Outcome three, four;
  Run(MakeTask({1, 2, 3}, three));
  Run(MakeTask({1, 2, 3, 4}, four));
  EXPECT_GE((*four.result)->batch_peak_bytes, 4 * kNumbers * static_cast<int64_t>(sizeof(float)));
  EXPECT_EQ((*three.result)->batch_peak_bytes, (*four.result)->batch_peak_bytes);
}

TEST_F(GpuLaneTest, AModelWhoseWorkDependsOnItsImagesIsNotRecorded) {
  auto model = std::make_unique<SummingModel>();
  model->cannot_be_replayed();
  ASSERT_TRUE(LoadOnGpu(std::move(model)).ok());
  EXPECT_EQ(captures_, 0);
  Outcome outcome;
  Run(MakeTask({1, 2, 3}, outcome));
  EXPECT_EQ(model_->batches_.back(), 3) << "no image more than there are";
  ASSERT_TRUE(outcome.result->ok());
}

TEST_F(GpuLaneTest, NothingRunsForACallerWhoHasGone) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  const int replays = gpu_->replays;
  Outcome outcome;
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  EXPECT_EQ(Run(MakeTask({1}, outcome, cancellation)), RunOutcome::kStopped);
  EXPECT_EQ(outcome.result->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(gpu_->replays, replays);
}

TEST_F(GpuLaneTest, Row40AFailedPassLeavesTheLaneAsItWas) {
  auto model = std::make_unique<SummingModel>(/*most_images=*/2);
  model->cannot_be_replayed();  // what fails is found when it runs
  ASSERT_TRUE(LoadOnGpu(std::move(model), /*max_batch_size=*/2).ok());
  Outcome poisoned, innocent, large;
  Run(MakeTask({kPoison}, poisoned), MakeTask({1}, innocent));
  EXPECT_EQ(poisoned.result->status().code(), absl::StatusCode::kInternal);
  ASSERT_TRUE(innocent.result->ok()) << innocent.result->status();
  Run(MakeTask({kTooLarge}, large));
  EXPECT_EQ(large.result->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(large.result->status()), "device.out_of_memory");
  Outcome after;
  Run(MakeTask({1, 2}, after));
  EXPECT_TRUE(after.result->ok());
}

TEST_F(GpuLaneTest, Row41ALostGpuIsAskedNothingAnyMore) {
  ASSERT_TRUE(LoadOnGpu(std::make_unique<SummingModel>()).ok());
  gpu_->lost = true;
  Outcome first, second;
  Run(MakeTask({1}, first), MakeTask({2}, second));
  EXPECT_EQ(ReasonOf(first.result->status()), "device.lost");
  EXPECT_EQ(ReasonOf(second.result->status()), "device.lost");
  EXPECT_TRUE(executor_->device_lost());
  gpu_->lost = false;
  const int replays = gpu_->replays;
  Outcome later;
  Run(MakeTask({1}, later));
  EXPECT_EQ(ReasonOf(later.result->status()), "device.lost");
  EXPECT_EQ(gpu_->replays, replays);
}

TEST_F(GpuLaneTest, Row39AModelThatDoesNotFitBesideTheOthersIsRefused) {
  gpu_->free_bytes = 8 * kNumbers * static_cast<int64_t>(sizeof(float)) - 1;
  const absl::Status status = LoadOnGpu(std::make_unique<SummingModel>());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "model.too_large");
  EXPECT_EQ(gpu_->captures, 0);
}

// What a model leaves free between two of its batches is not for another one.
TEST_F(GpuLaneTest, Row39ModelsShareAGpuWithinWhatAllMayHoldTogether) {
  constexpr int64_t kInput = 4 * kNumbers * int64_t{sizeof(float)};  // of 4 images
  const auto load = [](const std::shared_ptr<FakeGpu>& gpu) {
    return BatchExecutor::CreateWithModel(std::make_unique<SummingModel>(),
                                          {.max_batch_size = 4, .arrangement = {.gpus = {0}}},
                                          MakeGpuDevice(gpu), SteadyClock(), nullptr);
  };
  const auto roomy = std::make_shared<FakeGpu>(gpu_);
  int64_t one = 0;
  {
    const auto model = load(roomy);
    ASSERT_TRUE(model.ok()) << model.status();
    one = MemoryOf({roomy}).front().set_aside;
    EXPECT_GE(one, kInput);
  }
  EXPECT_EQ(MemoryOf({roomy}).front().set_aside, 0);

  const auto gpu = std::make_shared<FakeGpu>(gpu_, 0, 2 * one + one / 2);
  auto first = load(gpu);
  const auto second = load(gpu);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(ReasonOf(load(gpu).status()), "model.too_large");
  EXPECT_EQ(MemoryOf({gpu}).front().set_aside, 2 * one);
  first->reset();
  EXPECT_TRUE(load(gpu).ok());
}

TEST_F(GpuLaneTest, Row39WeightsAreSetAsideBeforeTheyCome) {
  SummingModel model;
  const int64_t weights = model.weight_bytes();
  const auto gpu = std::make_shared<FakeGpu>(gpu_, 0, 2 * weights - 1);
  const std::unique_ptr<LaneDevice> device = MakeGpuDevice(gpu);
  ASSERT_TRUE(device->Prepare(model, models::Precision::kFp32).ok());
  EXPECT_EQ(MemoryOf({gpu}).front().set_aside, weights);
  EXPECT_EQ(ReasonOf(MakeGpuDevice(gpu)->Prepare(model, models::Precision::kFp32)),
            "model.too_large");
  EXPECT_EQ(MemoryOf({gpu}).front().set_aside, weights);
}

TEST_F(GpuLaneTest, Row39WeightsThatDoNotFitBesideTheOthersAreRefusedBeforeTheyCome) {
  const auto gpu = std::make_shared<FakeGpu>(gpu_, 0, /*max_bytes=*/3 << 20);
  const auto executor =
      BatchExecutor::Create({.model = {.backbone = "vit_demo_patch8_64", .random_weights_seed = 1},
                             .arrangement = {.gpus = {0}}},
                            MakeGpuDevice(gpu), SteadyClock(), nullptr);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(executor.status()), "model.too_large");
  EXPECT_THAT(std::string(executor.status().message()),
              testing::HasSubstr("GPU 0 (fake) has 3.0 MiB left for models"));
  EXPECT_EQ(MemoryOf({gpu}).front().set_aside, 0);
}

TEST(GpuMemoryTest, TellsWhatTheAllocatorHas) {
  const auto state = std::make_shared<FakeGpuState>();
  state->allocated = 5;
  state->reserved = 8;
  const std::vector<GpuMemory> memory = MemoryOf(
      {std::make_shared<FakeGpu>(state, 0, 100), std::make_shared<FakeGpu>(state, 1, 200)});
  ASSERT_EQ(memory.size(), 2);
  EXPECT_EQ(memory[1].uuid, "GPU-fake-1");
  EXPECT_EQ(memory[1].allocated, 5);
  EXPECT_EQ(memory[1].reserved, 8);
  EXPECT_EQ(memory[1].set_aside, 0);
  EXPECT_EQ(memory[1].limit, 200);
}

TEST_F(GpuLaneTest, AModelThatTakesBytesGetsThem) {
  auto model = std::make_unique<SummingModel>();
  model->takes_bytes();
  ASSERT_TRUE(LoadOnGpu(std::move(model)).ok());
  Outcome outcome;
  Run(BytesTask(3, outcome, /*images=*/2));
  EXPECT_EQ(outcome.value(0), 3 * kNumbers);
  EXPECT_EQ(outcome.value(1), 3 * kNumbers);
}

}  // namespace
}  // namespace fovea
