// Runs closed batches of one loaded model on its lanes, and gives every task its own result or its
// own error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_zoo/model_description.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/turn.h"
#include "server/executor/inference_task.h"
#include "server/executor/lane.h"
#include "server/executor/lane_devices.h"
#include "server/scheduler/batch.h"
#include "server/scheduler/batch_threads.h"

namespace at {
class Tensor;
}
namespace fovea::models {
class ForwardContext;
class Model;
}  // namespace fovea::models

namespace fovea {

// Hears of every batch that ran. Thread-safe; must return quickly.
class ExecutionObserver {
 public:
  virtual ~ExecutionObserver() = default;
  struct BatchRun {
    int images = 0;
    int threads = 0;    // of the device, that ran it
    Nanos gather = 0;   // copying and normalising the pixels
    Nanos compute = 0;  // the model
    Nanos scatter = 0;  // results back to the tasks
    int64_t peak_bytes = 0;
    double padding = 0;                       // of the input's pixels, the share that shows nothing
    std::optional<DeviceTimes> device_times;  // of `compute`, as Lane::Pass has them
    int non_finite = 0;  // tasks that failed because their output held a NaN or an infinity
    uint64_t shape_key = 0;
  };
  virtual void OnBatch(const BatchRun& run) = 0;
  // A pass took so many threads of the device for so long, whatever became of it: of a batch that
  // is run again in parts, every attempt. Who does not count it leaves it.
  virtual void OnPass(Nanos /*time*/, int /*threads*/) {}
  // So much device time (of one thread) was spent on what nobody waited for any more when it ended:
  // a pass that was stopped, or of one that went on for others, the share of its images. Who does
  // not count it leaves it.
  virtual void OnWorkWasted(Nanos /*time*/) {}
};

struct BatchExecutorOptions {
  models::ModelDescription model;
  // The preprocessing to use in place of the published one; absent: the published one.
  std::function<models::Preprocessing(const models::Preprocessing& published)> preprocessing;
  int max_batch_size = 1;
  LaneArrangement arrangement;
  // What the weights and a batch may hold on the device; sizes whose batches may hold more are not
  // run.
  int64_t max_device_bytes = std::numeric_limits<int64_t>::max();
  // Every batch will be as large as it may be: no other is warmed up.
  bool only_full_batches = false;
  // Held during the warm-up; null: none. The times of models that warm up side by side would be
  // neither's. Who is told to end the load, below, waits for it no longer.
  Turn* warm_up_turn = nullptr;
  // Number of loads that share the time of a warm-up, so that many small models are ready as soon
  // as one large one.
  int loads_together = 1;
  // Hears what the load does now, on its thread; may be null.
  std::function<void(std::string doing)> on_progress;
  // Ends the load, between the blocks of a pass; null: nobody does.
  CancellationPtr cancellation;
  // Ends the load likewise.
  Nanos give_up_at = kNever;
  // Called where the device is lost, while the model loads or its first batch that finds it so
  // runs, on that thread; null: nobody is told.
  std::function<void()> on_device_lost;
};

// Hears how long batches took in the warm-up, of each shape on each number of threads that there
// was time for: of some numbers of images, the smallest and the largest among them. Of one image of
// the model's own size in any case.
using WarmUpProgress = std::function<void(const BatchSize& batch, Nanos took)>;

// Thread-safe: each instance calls Run from its own thread, with its own number.
class BatchExecutor {
 public:
  // Loads the model, prepares it for the device and warms it up there, on the calling thread, for
  // some seconds at most on the CPU, which also runs what has not been made ready.
  // `progress` may be null. FAILED_PRECONDITION: weights or spec do not make a model, it fails its
  // self-test (an answer that is no number, model.self_test_failed), or its batches do not fit the
  // device's memory: nobody survives the attempt; UNAVAILABLE: out of memory, or cancelled.
  static absl::StatusOr<std::unique_ptr<BatchExecutor>> Create(const BatchExecutorOptions& options,
                                                               std::unique_ptr<LaneDevice> device,
                                                               Clock& clock,
                                                               const WarmUpProgress& progress);
  // What Create does before the warm-up, for who only asks whether a folder can be loaded: the
  // model is built, prepared and let go of.
  static absl::StatusOr<models::ModelInfo> TryLoad(const BatchExecutorOptions& options,
                                                   LaneDevice& device);
  // For tests: a model that is already prepared.
  static absl::StatusOr<std::unique_ptr<BatchExecutor>> CreateWithModel(
      std::unique_ptr<models::Model> model, const BatchExecutorOptions& options,
      std::unique_ptr<LaneDevice> device, Clock& clock, const WarmUpProgress& progress);
  ~BatchExecutor();

  const models::ModelInfo& info() const;
  const models::Preprocessing& preprocessing() const { return preprocessing_; }
  int64_t weight_bytes() const;
  // Peak of the largest batch, its input included: measured in the warm-up, or what it would hold
  // at most where there was no time to run it.
  int64_t peak_activation_bytes() const;
  // Of each of info().sizes(), what the weights and its largest batch hold on the device, as
  // measured in the warm-up; of one that has not run, what they would at most.
  const std::vector<int64_t>& device_bytes() const { return device_bytes_; }
  // Of one image's outputs, or of what they are made of, at any size that is run; at most.
  int64_t output_bytes() const { return output_bytes_; }

  const LaneDevice& device() const { return *device_; }
  // Nothing runs on it any more: what is given to Run from now on is UNAVAILABLE (device.lost).
  bool device_lost() const { return device_lost_; }

  // Runs `tasks`, whose images fit max_batch_size together, and finishes each of them exactly once
  // before it returns. A task that makes the model fail, or whose output is not finite, fails
  // alone: the others are run again without it. Out of memory splits the batch. Between the blocks
  // of the model the run stops when nobody waits for any of the tasks: each is CANCELLED
  // (request.cancelled), or DEADLINE_EXCEEDED (request.deadline_passed) where its caller is there.
  // `observer` may be null.
  // It runs on `threads`, one of the arrangement's, and has no more images than it may have there
  // (AllowedThreads).
  RunOutcome Run(int instance, int threads, std::vector<std::unique_ptr<InferenceTask>> tasks,
                 ExecutionObserver* observer);

 private:
  BatchExecutor(std::unique_ptr<models::Model> model, const BatchExecutorOptions& options,
                std::unique_ptr<LaneDevice> device, Clock& clock);
  absl::Status CheckMemory(int64_t input_bytes, int64_t pass_bytes);
  // What Finish makes of an image besides what it takes.
  int64_t DescribedBytes() const;
  int64_t InputBytesPerImage(const models::ImageSize& size) const;
  class WarmUpTime;
  // Runs one image of each size, as far as there is time, the largest first: the allocator's and
  // oneDNN's buffers for it then serve the smaller ones. Returns the shape keys of those that
  // batches may have, the model's own first, and in `own_pass` what that took. FAILED_PRECONDITION:
  // an answer is no number, or batches hold too much.
  absl::StatusOr<std::vector<uint64_t>> ProbeSizes(models::ForwardContext& context,
                                                   WarmUpTime& time, Nanos& own_pass);
  absl::Status WarmUp(const WarmUpProgress& progress);
  std::span<const std::unique_ptr<Lane>> WarmedUpLanes() const;
  int64_t PixelsOf(uint64_t shape_key) const;  // of an image
  // Batches of one shape, as far as there is time, timed on the first lane.
  void WarmUpShape(uint64_t shape_key, models::ForwardContext& context, WarmUpTime& time,
                   const WarmUpProgress& progress);
  // What one task gets of a pass's outputs, whose rows begin at `first`; INTERNAL where one holds a
  // NaN or an infinity.
  absl::StatusOr<TaskResult> ResultOf(std::span<const at::Tensor> outputs, int64_t first,
                                      const InferenceTask& task) const;
  TaskOutputs Described(std::span<const at::Tensor> outputs) const;
  // As RunTorch, until the device is lost, which on_device_lost is told.
  absl::Status RunOnDevice(absl::FunctionRef<void()> work);
  RunOutcome RunTasks(Lane& lane, int threads, std::span<std::unique_ptr<InferenceTask>> tasks,
                      ExecutionObserver* observer);
  AllowedThreads allowed_threads() const {
    return {options_.arrangement.threads_per_batch, options_.max_batch_size};
  }

  const std::unique_ptr<models::Model> model_;
  const BatchExecutorOptions options_;
  const models::Preprocessing preprocessing_;
  const std::unique_ptr<LaneDevice> device_;
  Clock& clock_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<bool> device_lost_ = false;
  int64_t peak_activation_bytes_ = 0;
  std::vector<int64_t> device_bytes_;
  int64_t output_bytes_ = 0;
};

}  // namespace fovea
