// Models with random weights that are served without a repository, for tests of experiments.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model_zoo/folder/model_spec.h"
#include "server/core/cancellation.h"
#include "server/imaging/encode_png.h"
#include "server/imaging/imaging_pool.h"
#include "server/pipeline/served_model.h"
#include "server/pipeline/silent_observer.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/compare/one_gpu.h"

namespace fovea {

// Models by name, each in one version.
class FewModels final : public ModelCatalog {
 public:
  void Add(const std::shared_ptr<Servable>& model) { models_[model->view()->name] = model; }
  // As an unload does; says whether nobody holds it, so that an unload would not wait.
  bool Remove(const std::string& name) {
    const std::weak_ptr<const ServingModel> model = models_.extract(name).mapped();
    return model.expired();
  }

  absl::StatusOr<std::shared_ptr<const ModelView>> Find(std::string_view name,
                                                        std::string_view version) const override {
    FOVEA_ASSIGN_OR_RETURN(const auto model, Acquire(name, version));
    return model->view();
  }
  absl::StatusOr<std::shared_ptr<const ServingModel>> Acquire(
      std::string_view name, std::string_view /*version*/) const override {
    const auto found = models_.find(std::string(name));
    if (found == models_.end()) return NotFound("model.not_found", "no such model");
    return found->second;
  }
  std::vector<IndexEntry> Index() const override { return {}; }
  absl::Status Load(std::string_view, std::string_view) override { return absl::OkStatus(); }
  absl::Status LoadFiles(std::string_view, std::string_view, std::vector<SentFile>,
                         absl::FunctionRef<void()>) override {
    return absl::OkStatus();
  }
  absl::Status Unload(std::string_view) override { return absl::OkStatus(); }
  void OnReadinessChange(ReadinessListener) override {}

 private:
  std::map<std::string, std::shared_ptr<const ServingModel>> models_;
};

// A PNG file of noise; the same for the same seed.
inline std::string Picture(int height, int width, int seed) {
  std::mt19937 random(seed);
  RgbImage image = RgbImage::Allocate(height, width);
  for (size_t i = 0; i < image.size(); ++i) image.pixels[i] = static_cast<uint8_t>(random());
  return *EncodePng(image);
}

class ServedModelsTest : public testing::Test {
 protected:
  // Of random weights.
  void Serve(const std::string& name, const std::string& spec) {
    VersionToLoad parsed{.name = name, .version = 1};
    auto read = ParseModelSpec("spec_version: 1 random_weights { seed: 1 } " + spec, name);
    ASSERT_TRUE(read.ok()) << read.status();
    parsed.spec = *std::move(read);
    auto served = ServedModel::Create(parsed, Environment());
    ASSERT_TRUE(served.ok()) << served.status();
    models_.Add(*std::move(served));
  }
  ServedModel::Environment Environment() {
    return {.scheduler = *scheduler_,
            .imaging = *imaging_,
            .clock = *environment_clock_,
            .observe = [](const auto&) { return std::make_unique<SilentObserver>(); },
            .device_threads = device_threads_,
            .gpus = gpus_,
            .gpu_scheduler = gpu_scheduler_.get(),
            .on_gpu_lost = [this] { ++lost_gpus_; }};
  }
  // Before anything is served.
  void UseThreads(int threads) {
    device_threads_ = threads;
    scheduler_ = *Scheduler::Create({.device_threads = threads}, SteadyClock());
  }

  // A fake one. Before anything is served.
  void UseGpu() {
    OneGpu gpu = MakeOneGpu();
    gpus_ = std::move(gpu.gpus);
    lose_gpu_ = std::move(gpu.lose);
    gpu_scheduler_ = *Scheduler::Create({.device_threads = 1}, SteadyClock());
  }

  // First: what it is given to uses it to the end.
  std::shared_ptr<Clock> environment_clock_{&SteadyClock(), [](Clock*) {}};
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();
  int device_threads_ = 1;
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({.device_threads = 1}, SteadyClock());
  Gpus gpus_;
  std::function<void()> lose_gpu_;
  std::atomic<int> lost_gpus_ = 0;  // that were told of
  std::unique_ptr<Scheduler> gpu_scheduler_;
  std::unique_ptr<ImagingPool> imaging_ = *ImagingPool::Create({.threads = 1}, SteadyClock());
  FewModels models_;
};

}  // namespace fovea
