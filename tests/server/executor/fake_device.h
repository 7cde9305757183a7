// A device that is none: it runs a model on the CPU, later than asked and not always.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "model_zoo/model.h"
#include "server/executor/cpu_lane.h"

namespace fovea {

// What happens to the passes of a fake device. Shared with its lanes; thread-safe.
struct FakeDeviceFaults {
  std::atomic<int> delay_ms = 0;     // of each pass
  std::atomic<int> most_images = 0;  // of one pass, before it is out of memory; 0: any number
  std::atomic<int> failures = 0;     // so many passes fail from now on
  std::atomic<int> passes = 0;       // that were asked for
  std::atomic<bool> lost = false;    // every pass fails as LibTorch has it after an error of CUDA
};

class FakeDevice final : public LaneDevice {
 public:
  explicit FakeDevice(std::shared_ptr<FakeDeviceFaults> faults) : faults_(std::move(faults)) {}

  std::string_view name() const override { return "FAKE"; }
  void Prepare(models::Model& model, models::Precision precision) const override {
    cpu_->Prepare(model, precision);
  }
  std::unique_ptr<Lane> MakeLane(const models::Model& model,
                                 const models::Preprocessing& preprocessing,
                                 int max_batch_size) const override {
    return std::make_unique<FakeLane>(cpu_->MakeLane(model, preprocessing, max_batch_size),
                                      faults_);
  }
  int Concurrent(int lanes) const override { return lanes; }
  std::optional<int64_t> AvailableMemory() const override { return std::nullopt; }

 private:
  class FakeLane final : public Lane {
   public:
    FakeLane(std::unique_ptr<Lane> cpu, std::shared_ptr<FakeDeviceFaults> faults)
        : cpu_(std::move(cpu)), faults_(std::move(faults)) {}
    int Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) override {
      return cpu_->Gather(tasks);
    }
    void ClearInput() override { cpu_->ClearInput(); }
    Pass Run(const BatchSize& batch, models::ForwardContext& context) override {
      ++faults_->passes;
      std::this_thread::sleep_for(std::chrono::milliseconds(faults_->delay_ms));
      if (const int most = faults_->most_images; most > 0 && batch.images > most) {
        TORCH_CHECK_WITH(OutOfMemoryError, false, "no memory for ", batch.images, " images");
      }
      if (faults_->lost) {
        throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, 719,
                                    "CUDA error: unspecified launch failure");
      }
      if (faults_->failures > 0) {
        --faults_->failures;
        TORCH_CHECK(false, "the device has fallen off the bus");
      }
      return cpu_->Run(batch, context);
    }

   private:
    const std::unique_ptr<Lane> cpu_;
    const std::shared_ptr<FakeDeviceFaults> faults_;
  };

  const std::unique_ptr<LaneDevice> cpu_ = MakeCpuDevice({});
  const std::shared_ptr<FakeDeviceFaults> faults_;
};

}  // namespace fovea
