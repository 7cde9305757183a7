// A loaded model version that answers requests: its executor, its queue and what is known of it.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/limits.h"
#include "server/core/clock.h"
#include "server/core/turn.h"
#include "server/executor/batch_executor.h"
#include "server/executor/lane_devices.h"
#include "server/imaging/imaging_pool.h"
#include "server/imaging/resize_plan.h"
#include "server/pipeline/model_observer.h"
#include "server/postprocess/postprocessor.h"
#include "server/repository/servable.h"
#include "server/scheduler/scheduler.h"

namespace fovea {

class ServedModel final : public Servable {
 public:
  // What every model is served with; all of it outlives the models.
  struct Environment {
    Scheduler& scheduler;  // of the CPU
    ImagingPool& imaging;
    Clock& clock;
    ModelObserverFactory observe;
    int device_threads = 1;              // of the CPU, which its scheduler shares out
    Gpus gpus;                           // that models may run on
    Scheduler* gpu_scheduler = nullptr;  // of all of them; not null where there are any
    int64_t drain_timeout_us = 0;  // for what is queued when the version is replaced or unloaded
    // Makes what models run on; null: MakeLaneDevices does.
    std::function<absl::StatusOr<std::vector<std::unique_ptr<LaneDevice>>>(
        const LaneArrangement& arrangement, const LaneDeviceOptions& options)>
        make_devices;
    std::function<std::optional<int64_t>()> available_memory;  // as LaneDeviceOptions'
    // What a model's weights and a batch of it may hold on its device.
    int64_t max_device_bytes = std::numeric_limits<int64_t>::max();
    int64_t max_image_bytes = limits::kMaxEncodedImageBytes;  // as ModelView's
    int64_t max_image_pixels = limits::kMaxImagePixels;
    Turn* warm_up_turn = nullptr;  // as BatchExecutorOptions'
    Nanos give_up_at = kNever;     // likewise
    // Called when a GPU is lost, which this process never gets back; may be null. Thread-safe.
    std::function<void()> on_gpu_lost;

    Scheduler& SchedulerOf(const LaneArrangement& arrangement) const {
      return arrangement.gpus.empty() ? scheduler : *gpu_scheduler;
    }
    // As Scheduler::AwaitIdle, of all devices one after the other.
    bool AwaitIdle(Nanos until) const {
      return scheduler.AwaitIdle(until) &&
             (gpu_scheduler == nullptr || gpu_scheduler->AwaitIdle(until));
    }
  };

  // Loads, prepares and warms up; logs its progress. See ServableFactory for the errors.
  static absl::StatusOr<std::shared_ptr<Servable>> Create(const VersionToLoad& model,
                                                          const Environment& environment);
  ~ServedModel() override = default;

  const std::shared_ptr<const ModelView>& view() const override { return view_; }
  void OnAnswered(Protocol protocol, absl::StatusCode code,
                  const StageTimes& stages) const override {
    observer_->OnAnswered(protocol, code, stages);
  }
  // What it was made of; without labels, which view() has.
  const VersionToLoad& source() const { return source_; }
  ModelQueue& queue() const { return *queue_; }
  // Where its images wait to be decoded.
  ImagingLine& imaging_line() const { return *imaging_line_; }
  const Postprocessor& postprocessor() const { return *postprocessor_; }
  // `request` ends with `status`. Once for each, before it is answered: what imaging has done for
  // it is counted, where nobody waits for it any more as wasted, too.
  void CountImaging(const InferenceRequest& request, const absl::Status& status) const;
  // From an image of any size to the bytes that the model takes.
  const PreprocessSpec& preprocessing() const { return preprocessing_; }

 private:
  ServedModel(const VersionToLoad& model, const Environment& environment)
      : source_(WithoutLabels(model)), imaging_(environment.imaging), clock_(environment.clock) {}
  static VersionToLoad WithoutLabels(VersionToLoad model) {
    model.labels.clear();
    return model;
  }
  void Take(std::shared_ptr<const ServingModel> self, std::unique_ptr<InferenceRequest> request,
            InferenceCallback done) const override;
  const BatchExecutor& executor() const { return *executors_.front(); }
  BatchExecutor& ExecutorOf(int instance) const {
    return *executors_[static_cast<size_t>(instance) % executors_.size()];
  }
  RunOutcome RunBatch(std::unique_ptr<Batch> batch);

  const VersionToLoad source_;
  ImagingPool& imaging_;
  Clock& clock_;
  std::atomic<bool> lost_ = false;  // source_.on_lost was called
  std::shared_ptr<const ModelView> view_;
  PreprocessSpec preprocessing_;
  std::unique_ptr<const Postprocessor> postprocessor_;
  std::unique_ptr<ImagingLine> imaging_line_;
  std::unique_ptr<ModelObserver> observer_;
  // One a device: its queue's instance i is of the i-th, in turn.
  std::vector<std::unique_ptr<BatchExecutor>> executors_;
  // Last: destroyed first, while what its threads use is still there.
  std::unique_ptr<ModelQueue> queue_;
};

}  // namespace fovea
