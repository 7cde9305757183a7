// A device that does what another one does, later than asked and not always.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "model_zoo/model.h"
#include "server/executor/cpu_lane.h"

namespace fovea {

// What happens to the passes of a faulty device. Shared with its lanes; thread-safe.
struct FaultyDeviceFaults {
  std::atomic<int> delay_ms = 0;     // of each pass
  std::atomic<bool> paused = false;  // passes wait while it is set
  std::atomic<int> most_images = 0;  // of one pass, before it is out of memory; 0: any number
  std::atomic<int> failures = 0;     // so many passes fail from now on
  std::atomic<int> passes = 0;       // that were asked for
  std::atomic<int> idle_calls = 0;   // of LaneDevice::IdleThread
  std::atomic<bool> lost = false;    // every pass fails as LibTorch does after a CUDA error
};

class FaultyDevice final : public LaneDevice {
 public:
  // `real`: that runs the model; null: the CPU does.
  explicit FaultyDevice(std::shared_ptr<FaultyDeviceFaults> faults,
                        std::unique_ptr<LaneDevice> real = nullptr)
      : faults_(std::move(faults)), real_(real != nullptr ? std::move(real) : MakeCpuDevice({})) {}

  std::string_view name() const override { return real_->name(); }
  absl::Status Prepare(models::Model& model, models::Precision precision) override {
    return real_->Prepare(model, precision);
  }
  std::unique_ptr<Lane> MakeLane(const models::Model& model,
                                 const models::Preprocessing& preprocessing,
                                 int max_batch_size) const override {
    return std::make_unique<FaultyLane>(real_->MakeLane(model, preprocessing, max_batch_size),
                                        faults_);
  }
  std::vector<int> WarmUpSizes(int max_batch_size) const override {
    return real_->WarmUpSizes(max_batch_size);
  }
  bool WarmsUpEachLane() const override { return real_->WarmsUpEachLane(); }
  void IdleThread() const override {
    ++faults_->idle_calls;
    real_->IdleThread();
  }
  int Concurrent(int lanes) const override { return lanes; }
  Room SetAside(int64_t) override { return {}; }

 private:
  class FaultyLane final : public Lane {
   public:
    FaultyLane(std::unique_ptr<Lane> real, std::shared_ptr<FaultyDeviceFaults> faults)
        : real_(std::move(real)), faults_(std::move(faults)) {}
    int Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) override {
      return real_->Gather(tasks);
    }
    void ClearInput() override { real_->ClearInput(); }
    Pass Run(const BatchSize& batch, models::ForwardContext& context) override {
      SufferFaults(batch);
      return real_->Run(batch, context);
    }
    Pass MakeReady(const BatchSize& batch, models::ForwardContext& context) override {
      SufferFaults(batch);
      return real_->MakeReady(batch, context);
    }

   private:
    void SufferFaults(const BatchSize& batch) {
      ++faults_->passes;
      std::this_thread::sleep_for(std::chrono::milliseconds(faults_->delay_ms));
      while (faults_->paused) std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
    }

    const std::unique_ptr<Lane> real_;
    const std::shared_ptr<FaultyDeviceFaults> faults_;
  };

  const std::shared_ptr<FaultyDeviceFaults> faults_;
  const std::unique_ptr<LaneDevice> real_;
};

}  // namespace fovea
