// An executor whose model counts what it is asked.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model_zoo/model.h"
#include "server/executor/batch_executor.h"
#include "server/executor/cpu_lane.h"

namespace fovea {

inline constexpr int kSide = 2;
inline constexpr int kNumbers = 3 * kSide * kSide;
inline constexpr int kBlocks = 100;         // of the model
inline constexpr float kPoison = 666.0f;    // makes the model throw
inline constexpr float kTooLarge = 777.0f;  // makes it run out of memory

// What models of one logit have in common that tests do not ask about.
class OneLogitModel : public models::Model {
 public:
  OneLogitModel() {
    info_.image_height = info_.image_width = kSide;
    info_.num_classes = 1;
    info_.outputs = {{"logits", {1}}};
  }
  const models::ModelInfo& info() const override { return info_; }
  void Prepare(c10::Device, models::Precision) override {}
  std::vector<at::Tensor> Features(const at::Tensor&, models::ForwardContext&) const override {
    return {};
  }
  int64_t weight_bytes() const override { return 0; }

 protected:
  models::ModelInfo info_;
};

// Sums each image's pixels. Throws for a poisoned image, and out of memory for more than
// `most_images` at a time.
class SummingModel final : public OneLogitModel {
 public:
  explicit SummingModel(int most_images = 1000, std::vector<models::ImageSize> further_sizes = {})
      : most_images_(most_images) {
    info_.further_sizes = std::move(further_sizes);
  }
  std::vector<at::Tensor> RunBatch(const at::Tensor& pixels,
                                   models::ForwardContext& context) const override {
    batches_.push_back(static_cast<int>(pixels.size(0)));
    sizes_.push_back({pixels.size(2), pixels.size(3)});
    fullest_.push_back(context.Fullest());
    threads_.push_back(at::get_num_threads());
    if (on_run_) on_run_();
    TORCH_CHECK(!(pixels == kPoison).any().item<bool>(), "secret path /etc/passwd");
    if (pixels.size(0) > most_images_ || (pixels == kTooLarge).any().item<bool>()) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory for ", pixels.size(0), " images");
    }
    for (int block = 0; block < kBlocks; ++block) {
      if (context.ShouldStop()) return {};
      ++blocks_;
      if (on_block_) on_block_(block);
    }
    contents_.clear();
    for (int64_t i = 0; i < pixels.size(0); ++i) {
      contents_.push_back(context.Content(i, sizes_.back()));
    }
    return {pixels.sum({1, 2, 3}).unsqueeze(1) * factor_};
  }
  std::vector<at::Tensor> Finish(std::vector<at::Tensor> images, const models::ImageSize& input,
                                 std::span<const models::ImageSize> contents) const override {
    EXPECT_EQ(input, (models::ImageSize{kSide, kSide}));
    finished_ += static_cast<int>(contents.size());
    return {-images[0]};
  }
  void finishes() { info_.finishes = true; }
  void cannot_be_replayed() { info_.replayable = false; }
  void takes_bytes() { info_.pixel_input = models::PixelInput::kBytes; }
  int64_t weight_bytes() const override { return 42; }

  mutable std::vector<int> batches_;
  mutable std::vector<models::ImageSize> sizes_;
  mutable std::vector<int> threads_;
  mutable std::vector<models::ImageSize> contents_;  // of the last pass
  mutable int finished_ = 0;                         // images
  mutable std::vector<bool> fullest_;                // whether each pass was to hold the most
  std::function<void()> on_run_;                     // of every pass
  std::function<void(int block)> on_block_;          // at the end of each
  mutable int blocks_ = 0;                           // that were run
  double factor_ = 1;

 private:
  int most_images_;
};

struct Outcome {
  std::optional<absl::StatusOr<TaskResult>> result;
  int calls = 0;
  float value(int image = 0) const {
    return reinterpret_cast<const float*>((*result)->outputs[0].data.data())[image];
  }
};

inline std::unique_ptr<InferenceTask> MakeTask(
    const std::vector<float>& images, Outcome& outcome,
    CancellationPtr cancellation = std::make_shared<Cancellation>(), Nanos deadline = kNever) {
  std::vector<float> numbers;
  for (float value : images) numbers.insert(numbers.end(), kNumbers, value);
  auto request = std::make_unique<InferenceRequest>();
  request->cancellation = std::move(cancellation);
  request->deadline = deadline;
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()),
                               numbers.size() * sizeof(float));
  return std::make_unique<InferenceTask>(
      std::move(request), ReceivedPixels{ScatteredBytes::Copy(bytes)},
      BatchSize{.images = static_cast<int>(images.size())},
      /*priority=*/0,
      [&outcome](std::unique_ptr<InferenceTask>, absl::StatusOr<TaskResult> result) {
        outcome.result = std::move(result);
        ++outcome.calls;
      });
}

class BatchExecutorTest : public testing::Test {
 protected:
  void Load(std::unique_ptr<SummingModel> model, int max_batch_size = 8,
            Clock& clock = SteadyClock()) {
    model_ = model.get();
    auto executor = BatchExecutor::CreateWithModel(
        std::move(model), {.max_batch_size = max_batch_size}, MakeCpuDevice({}), clock, nullptr);
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
    model_->batches_.clear();
    model_->blocks_ = 0;
  }

  template <typename... Tasks>
  RunOutcome Run(Tasks... tasks) {
    std::vector<std::unique_ptr<InferenceTask>> batch;
    (batch.push_back(std::move(tasks)), ...);
    return executor_->Run(0, 1, std::move(batch), &observer_);
  }

  struct LastBatch final : ExecutionObserver {
    void OnBatch(const BatchRun& run) override {
      last = run;
      ++batches;
    }
    void OnWorkWasted(Nanos time) override { wasted += time; }
    void OnPass(Nanos time, int threads) override { taken += time * threads; }
    BatchRun last;
    int batches = 0;
    Nanos wasted = 0;
    Nanos taken = 0;  // of the device's threads, all together
  };

  LastBatch observer_;
  SummingModel* model_ = nullptr;
  std::unique_ptr<BatchExecutor> executor_;
};

}  // namespace fovea
