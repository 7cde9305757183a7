// One admitted request on its way through the scheduler and the executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/core/image_size.h"
#include "server/core/request.h"
#include "server/core/resized_image.h"
#include "server/core/stages.h"
#include "server/core/tensor.h"
#include "server/scheduler/task.h"

namespace fovea {

// Pixels in the slices that came from the socket, at one of the model's sizes: FP32 [images, 3,
// height, width], normalised, or UINT8 [images, height, width, 3].
struct ReceivedPixels {
  ScatteredBytes data;
  bool normalised = true;
};

// Pixels that imaging decoded and resized, all of them for one of the model's sizes.
struct DecodedPixels {
  std::vector<ResizedImage> images;
};

// Where a task's pixels wait until its batch is gathered.
using PixelSource = std::variant<ReceivedPixels, DecodedPixels>;

// A model's outputs for one task: one tensor for each, [images, ...].
using TaskOutputs = std::vector<OutputTensor>;

// What running a task gave.
struct TaskResult {
  TaskOutputs outputs;
  // What is left to do for this task alone, instead of `outputs`; null: nothing. To be called once,
  // on any thread that may be held up: others of its batch do not wait for it.
  absl::AnyInvocable<absl::StatusOr<TaskOutputs>() &&> finish;
  int batch_size = 0;     // images in the batch that it was run in
  int batch_threads = 0;  // of the device, that ran the batch
  int64_t batch_peak_bytes = 0;
  std::optional<DeviceTimes> device_times;  // of the batch; absent on the CPU
};

class InferenceTask final : public Task {
 public:
  // Called exactly once, with the task itself, when it was run, failed or was dropped; on any
  // thread, no lock held.
  using Done =
      absl::AnyInvocable<void(std::unique_ptr<InferenceTask>, absl::StatusOr<TaskResult>) &&>;

  InferenceTask(std::unique_ptr<InferenceRequest> request, PixelSource pixels,
                const BatchSize& size, int priority, Done done)
      : request_(std::move(request)),
        pixels_(std::move(pixels)),
        size_(size),
        priority_(priority),
        done_(std::move(done)) {}

  InferenceRequest& request() { return *request_; }
  const InferenceRequest& request() const { return *request_; }
  const PixelSource& pixels() const { return pixels_; }
  // How the model sees an image of it, at `input`, its size.
  ImageTransform transform(int image, const ImageSize& input) const {
    if (const auto* decoded = std::get_if<DecodedPixels>(&pixels_)) {
      return decoded->images[image].transform;
    }
    return ImageTransform::Identity(input.height, input.width);
  }

  static void Finish(std::unique_ptr<InferenceTask> task, absl::StatusOr<TaskResult> result) {
    Done done = std::move(task->done_);
    std::move(done)(std::move(task), std::move(result));
  }

  // Task:
  int images() const override { return size_.images; }
  uint64_t shape_key() const override { return size_.shape_key; }
  int priority() const override { return priority_; }
  Nanos arrival() const override { return request_->stages.start(); }
  Nanos timeout() const override { return request_->QueueTimeout(); }
  Nanos deadline() const override { return request_->deadline; }
  bool Cancelled() const override { return request_->cancellation->Cancelled(); }
  CancellationPtr idle_only() const override {
    return request_->idle_only ? request_->cancellation : nullptr;
  }
  void Drop(std::unique_ptr<Task> self, absl::Status why) override {
    Finish(std::unique_ptr<InferenceTask>(static_cast<InferenceTask*>(self.release())),
           std::move(why));
  }

 private:
  std::unique_ptr<InferenceRequest> request_;
  PixelSource pixels_;
  const BatchSize size_;
  const int priority_;
  Done done_;
};

}  // namespace fovea
