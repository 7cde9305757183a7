// Where the batches of a model run: a device, and on it a lane for each instance of the model.
// Nothing outside a lane and its device knows what they are: threads of the CPU, or a GPU's stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "model_zoo/model_description.h"
#include "server/core/stages.h"
#include "server/executor/inference_task.h"

namespace at {
class Tensor;
}
namespace fovea::models {
class ForwardContext;
class Model;
}  // namespace fovea::models

namespace fovea {

// One instance: its input buffer, and the passes over it. A shape key is a place in
// ModelInfo::sizes(). Used by one thread at a time, and not longer than its device. Throws
// c10::Error.
class Lane {
 public:
  virtual ~Lane() = default;

  // Copies the pixels of the tasks, all of one shape, into its input, one after another, and
  // normalises them on the way: the only copy between the socket and the model. How many images
  // they are.
  virtual int Gather(std::span<const std::unique_ptr<InferenceTask>> tasks) = 0;

  // Makes its whole input a black picture, for who runs it without having gathered anything.
  virtual void ClearInput() = 0;

  struct Pass {
    // What Model::Finish takes, [images, ...], on the CPU and contiguous. None where the context
    // stopped the pass.
    std::vector<at::Tensor> outputs;
    int64_t peak_bytes = 0;                   // held at one time, the images' input included
    std::optional<DeviceTimes> device_times;  // of a device that works beside the lane's thread
  };
  // Runs the first images of its input, as images of that shape, on so many threads.
  virtual Pass Run(const BatchSize& batch, models::ForwardContext& context) = 0;

  // The first pass of such a batch, which also makes what later ones use: that takes time which
  // they do not take. `batch` is one of WarmUpSizes.
  virtual Pass MakeReady(const BatchSize& batch, models::ForwardContext& context) = 0;
};

// What one model runs on. Thread-safe. Throws c10::Error.
class LaneDevice {
 public:
  virtual ~LaneDevice() = default;

  virtual std::string_view name() const = 0;  // "CPU" or "GPU"

  // Turns loaded weights into what runs here. Once. FAILED_PRECONDITION (model.too_large): a GPU
  // sets aside what they take before they come, and has less for models.
  virtual absl::Status Prepare(models::Model& model, models::Precision precision) = 0;
  // A lane of the prepared model, with room for `max_batch_size` images of any of its sizes.
  // `model` outlives it.
  virtual std::unique_ptr<Lane> MakeLane(const models::Model& model,
                                         const models::Preprocessing& preprocessing,
                                         int max_batch_size) const = 0;

  // The numbers of images for which lanes are made ready before a model serves, descending, the
  // first being `max_batch_size`.
  virtual std::vector<int> WarmUpSizes(int max_batch_size) const = 0;
  // Whether what is made ready is a lane's own, not the device's: a GPU's recorded graphs, all of
  // which are made before the model serves.
  virtual bool WarmsUpEachLane() const { return false; }

  // Of `lanes` lanes, how many run at the same time, on as few threads each as there may be.
  virtual int Concurrent(int lanes) const = 0;
  struct Room {
    bool fits = true;
    int64_t available = 0;  // bytes, where it does not
  };
  // Room for what batches of the model hold at most, asked for once. A GPU sets the bytes aside for
  // as long as this is there. The CPU only compares them with what is free now, and sets nothing
  // aside: its memory is not this process's alone.
  virtual Room SetAside(int64_t bytes) = 0;

  // To be called first on each thread that loads or runs the model.
  virtual void EnterThread() const {}
  // To be called on such a thread that has had nothing to run for long.
  virtual void IdleThread() const {}
  // To be called last on such a thread that goes on without the model.
  virtual void LeaveThread() const {}
};

}  // namespace fovea
