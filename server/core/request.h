// An inference request and its answer between the stages: no wire format, no framework.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/image_size.h"
#include "server/core/request_memory.h"
#include "server/core/stages.h"
#include "server/core/tensor.h"
#include "server/core/vision_task.h"

namespace fovea {

class SharedMemoryRegions;

struct RequestedOutput {
  std::string name;
  // Triton's classification extension: so many "<value>:<index>[:<label>]" strings instead of the
  // numbers; 0: numbers.
  int64_t classification = 0;
  std::optional<SharedMemorySpan> shared_memory;  // where it is to be put; none: into the answer
};

// What a request hands over: tensors by name, or images as files.
using NamedTensors = std::vector<InputTensor>;
struct ImageFiles {
  std::vector<ScatteredBytes> files;
};
using RequestInput = std::variant<NamedTensors, ImageFiles>;

// What it asks for: tensors by name, or a task's results.
struct WantedTensors {
  std::vector<RequestedOutput> outputs;  // empty: every output of the model
  // Over gRPC: as typed contents, which is how the inputs came, in place of raw ones.
  bool typed_contents = false;
};
struct ClassifyOptions {
  int top_k = 0;  // classes of each image, best first
};
enum class MaskFormat { kNone, kRunLengths, kPng };
struct DetectOptions {
  float score_threshold = 0;         // of what is told, in [0, 1]
  int max_detections = 0;            // of each image; 0: as many as the model gives
  std::vector<std::string> classes;  // labels or class numbers, of which alone; empty: of all
  MaskFormat masks = MaskFormat::kNone;
};
enum class MapFormat { kPng, kRunLengths };
struct SegmentOptions {
  MapFormat format = MapFormat::kPng;
  bool confidence = false;  // besides, how sure the model is of each pixel's class
};
using RequestOptions = std::variant<WantedTensors, ClassifyOptions, DetectOptions, SegmentOptions>;

// Bytes that a copy of `options` holds beside its record: a caller may name a class a hundred
// thousand times.
inline int64_t HeldBytes(const RequestOptions& options) {
  int64_t bytes = 0;
  if (const auto* detect = std::get_if<DetectOptions>(&options)) {
    for (const std::string& name : detect->classes) {
      bytes += static_cast<int64_t>(sizeof(name) + name.size());
    }
  }
  return bytes;
}

// The task whose results are asked for; none: tensors.
inline std::optional<VisionTask> TaskOf(const RequestOptions& options) {
  if (std::holds_alternative<ClassifyOptions>(options)) return VisionTask::kClassification;
  if (std::holds_alternative<DetectOptions>(options)) return VisionTask::kDetection;
  if (std::holds_alternative<SegmentOptions>(options)) return VisionTask::kSegmentation;
  return std::nullopt;
}

// As a duration; what is longer than any server waits is shortened to that.
inline Nanos ShortenedTimeout(uint64_t timeout_us) {
  constexpr uint64_t kLongestUs = limits::kMaxTimeoutSeconds * (kSecond / kMicrosecond);
  return static_cast<Nanos>(std::min(timeout_us, kLongestUs)) * kMicrosecond;
}

struct InferenceRequest {
  std::string model_name;
  std::string model_version;  // empty: the latest that is served
  std::string id;
  RequestInput input;
  RequestOptions options;
  // Besides the results, its one picture with them drawn over it; only of image files.
  bool draw = false;
  uint64_t priority = 0;  // as the caller gave it: 1 first, 0 the model's default
  // Triton's parameter, as the caller gave it: the model says what it means. 0: none.
  uint64_t timeout_us = 0;
  Nanos deadline = kNever;  // steady time
  // Shared by the requests that one request of several pictures was split into
  // (pipeline/image_by_image); 0: not split.
  uint64_t split_from = 0;
  // It is run only while the device has nothing else to do (Task::idle_only), and then given up by
  // its cancellation. Nobody waits for it.
  bool idle_only = false;
  // Its pixel_values hold a NaN or an infinity, which the model lets in: what comes of them is the
  // answer, and no fault of the model's.
  bool non_finite_input = false;
  CancellationPtr cancellation = std::make_shared<Cancellation>();
  StageTimes stages;              // started at the message's arrival
  Nanos imaging_thread_time = 0;  // for so long imaging's threads were taken by it, all together
  // The InferenceCall's, which keeps it until the answer has left; null: nobody counts.
  RequestMemory* memory = nullptr;
  // Where tensors may lie; null: nowhere but in the message.
  SharedMemoryRegions* shared_memory = nullptr;

  // The request's own timeout, from its arrival: the earlier of the deadlines counts. 0: it has
  // none.
  void LimitTime(uint64_t limit_us) {
    if (limit_us != 0) deadline = std::min(deadline, stages.start() + ShortenedTimeout(limit_us));
  }

  // How long it may wait by its own account, from its arrival; kNever: it does not say.
  Nanos QueueTimeout() const { return timeout_us == 0 ? kNever : ShortenedTimeout(timeout_us); }

  absl::Status TakeMemory(int64_t bytes) {
    return memory == nullptr ? absl::OkStatus() : memory->Take(bytes);
  }
};

// Hears of a request as soon as its model's name and version are known, wherever in the message
// they stand, and before any work is done for its tensors. An error refuses the request.
using CheckModel = absl::FunctionRef<absl::Status(const InferenceRequest& head)>;

struct ClassScore {
  int index = 0;
  std::string label;  // empty where the model has no labels
  float confidence = 0;
  float logit = 0;
};

// In pixels of the caller's upright picture, to the outer edges; inside of it.
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;

  bool operator==(const Box&) const = default;
};

// The pixels of one object in a picture: one of the two forms.
struct InstanceMask {
  std::string run_lengths;    // COCO's compressed ones, of the whole picture
  std::string png;            // grey, 255 where the object is; empty where it has no pixel
  int64_t left = 0, top = 0;  // in the picture, of the PNG's upper left pixel
  int64_t pixels = 0;
};

struct Detection {
  Box box;
  float score = 0;
  int class_index = 0;
  std::string label;                 // empty where the model has no labels
  std::optional<InstanceMask> mask;  // where it is asked for
};

struct ImageDetections {
  std::vector<Detection> detections;  // best first
  ImageSize image;                    // the caller's picture, upright
};

// The pixels of one class in a picture.
struct ClassArea {
  int class_index = 0;
  std::string label;  // empty where the model has no labels
  int64_t pixels = 0;
  std::string run_lengths;  // COCO's compressed ones, where they are asked for
};

struct ImageSegmentation {
  ImageSize image;                 // the caller's picture, upright
  std::vector<ClassArea> classes;  // those that it shows, the largest first
  std::string class_map_png;       // grey levels are class numbers; of 8 bits up to 256 classes
  std::string confidence_png;      // grey levels are 255 times the softmax of the pixel's class
};

// What is answered, by what was asked for.
using TensorResults = std::vector<OutputTensor>;
using ClassifyResults = std::vector<std::vector<ClassScore>>;  // one list an image, best first
using DetectResults = std::vector<ImageDetections>;            // of each image
using SegmentResults = std::vector<ImageSegmentation>;         // of each image
using Results = std::variant<TensorResults, ClassifyResults, DetectResults, SegmentResults>;

struct InferenceResponse {
  std::string model_name;
  std::string model_version;
  std::string id;
  std::string attention;  // canonical text
  bool untrained = false;
  bool non_finite_input = false;  // as the request's
  bool typed_contents = false;    // as WantedTensors'; gRPC's transport sets it
  Results results;
  std::string drawing;  // a PNG file, where it was asked for
  Receipt receipt;      // the encode stage is still running: the transport ends it
};

// Receives the answer of one request: called exactly once, on any thread; must return quickly and
// not block.
using InferenceCallback = std::function<void(absl::StatusOr<InferenceResponse>, StageTimes)>;

}  // namespace fovea
