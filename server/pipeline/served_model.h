// A loaded model version that answers requests: its executor, its queue and what is known of it.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

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
    Scheduler& scheduler;
    ImagingPool& imaging;
    Clock& clock;
    ModelObserverFactory observe;
    int device_threads = 1;        // what the scheduler shares out
    int64_t drain_timeout_us = 0;  // for what is queued when the version is replaced or unloaded
    // Makes what models run on; null: MakeLaneDevice does.
    std::function<absl::StatusOr<std::unique_ptr<LaneDevice>>(const models::InstanceGroup& group,
                                                              const LaneDeviceOptions& options)>
        make_device;
    std::function<std::optional<int64_t>()> available_memory;  // as LaneDeviceOptions'
    // What a model's weights and a batch of it may hold on its device.
    int64_t max_device_bytes = std::numeric_limits<int64_t>::max();
    int64_t max_image_bytes = limits::kMaxEncodedImageBytes;  // as ModelView's
    int64_t max_image_pixels = limits::kMaxImagePixels;
    Turn* warm_up_turn = nullptr;  // as BatchExecutorOptions'
    Nanos give_up_at = kNever;     // likewise
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
  std::unique_ptr<BatchExecutor> executor_;
  // Last: destroyed first, while what its threads use is still there.
  std::unique_ptr<ModelQueue> queue_;
};

}  // namespace fovea
