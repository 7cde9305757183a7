// Models as the api and admission see them: names, states, what they take, and the way in for
// requests; nothing of how they run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/queue_policy.h"
#include "base/sent_file.h"
#include "server/core/image_size.h"
#include "server/core/protocol.h"
#include "server/core/request.h"
#include "server/core/stages.h"
#include "server/core/tensor.h"
#include "server/core/vision_task.h"

namespace fovea {

struct TensorDescription {
  std::string name;
  DataType type = DataType::kFp32;
  std::vector<int64_t> shape;  // -1: any; the first dimension is the batch's

  // At least, where a dimension is any.
  int64_t ElementsPerImage() const {
    int64_t elements = 1;
    for (size_t i = 1; i < shape.size(); ++i) elements *= std::max<int64_t>(shape[i], 1);
    return elements;
  }
};

// How probabilities in a box become pixels of a picture: the two differ by up to a pixel.
enum class MaskPasting { kTorchvision, kMmdetection };

// Facts of one loaded version. Immutable; a reload makes a new one.
struct ModelView {
  std::string name;
  std::string version;                       // decimal, "1"
  std::vector<std::string> served_versions;  // all served ones of this name
  std::string backbone;
  std::string attention;  // canonical text
  VisionTask task = VisionTask::kClassification;
  std::string precision;                  // "FP32"
  std::vector<TensorDescription> inputs;  // the advertised one
  std::vector<TensorDescription> outputs;
  int64_t output_bytes = 0;                        // of the model, for one image at most
  std::vector<TensorDescription> accepted_inputs;  // all three: a request uses exactly one
  std::map<std::string, std::string> properties;   // metadata's, "fovea.inputs" among them
  // By class index, empty where there are none; never null. All views of a loaded version share
  // them: a view is copied whenever what serves changes, and a million labels are not.
  std::shared_ptr<const std::vector<std::string>> labels =
      std::make_shared<const std::vector<std::string>>();
  size_t longest_label = 0;  // bytes
  // That it runs at, its own first: images are resized to that one, but pixels that have any of
  // them run as they are. Only requests of one size share a batch; a place in this list is their
  // shape key.
  std::vector<ImageSize> sizes;
  // Pictures keep their shape: each is resized for the one of the sizes that suits it, files and
  // image_rgb alike. Only pixel_values run as they are.
  bool fits_pictures = false;
  // Of each size, what its largest batch holds with the weights; and how much of it the server has.
  std::vector<int64_t> device_bytes;
  int64_t max_device_bytes = std::numeric_limits<int64_t>::max();
  // Of a picture that is sent: its file, and what its header says.
  int64_t max_image_bytes = limits::kMaxEncodedImageBytes;
  int64_t max_image_pixels = limits::kMaxImagePixels;
  int64_t num_classes = 0;
  MaskPasting mask_pasting = MaskPasting::kTorchvision;
  bool sigmoid = false;      // confidences are each class's own, and no shares of all classes
  bool pixel_bytes = false;  // takes UINT8 pixels as they are: no normalisation
  bool allow_non_finite = false;
  bool untrained = false;
  int max_batch_size = 0;
  std::vector<int> preferred_batch_sizes;
  int64_t max_queue_delay_us = 0;
  QueuePolicy default_queue_policy;
  std::map<int, QueuePolicy> priority_queue_policy;  // by level; the others have the default
  int priority_levels = 0;
  int default_priority_level = 0;
  int instances = 0;                            // as the description fixes it; 0: it does not
  int rate_limiter_priority = 1;                // Triton's weight between models
  std::string device;                           // that they run on: "CPU"
  std::map<std::string, int64_t> memory_bytes;  // by kind: "weights", ...

  // The level of a request, 1 the highest, by the priority that its caller gave. As Triton has it,
  // 0 and levels that the model does not have stand for its default. 1 where it has no levels.
  int LevelOf(uint64_t priority) const {
    if (priority_levels == 0) return 1;
    const bool known = priority >= 1 && priority <= static_cast<uint64_t>(priority_levels);
    return known ? static_cast<int>(priority) : default_priority_level;
  }
  const QueuePolicy& PolicyOf(int level) const {
    const auto found = priority_queue_policy.find(level);
    return found == priority_queue_policy.end() ? default_queue_policy : found->second;
  }
};

// A version that serves. It goes on serving for as long as somebody holds it, whatever is loaded or
// unloaded meanwhile. Thread-safe.
class ServingModel {
 public:
  virtual ~ServingModel() = default;

  // Never null. `served_versions` is not filled in.
  virtual const std::shared_ptr<const ModelView>& view() const = 0;

  // An answer to a request that was for this version is handed to the wire. Returns quickly.
  virtual void OnAnswered(Protocol protocol, absl::StatusCode code,
                          const StageTimes& stages) const = 0;

  // Takes a request for `model` and returns quickly, without decoding or running anything on the
  // caller's thread. `done` is called exactly once: with the answer, or with the error of the stage
  // that ended it. It may be called before this returns. Cancelling the request's Cancellation ends
  // it early.
  static void Infer(std::shared_ptr<const ServingModel> model,
                    std::unique_ptr<InferenceRequest> request, InferenceCallback done) {
    const ServingModel& taken = *model;
    taken.Take(std::move(model), std::move(request), std::move(done));
  }

 protected:
  // `self` keeps this serving until the request is done.
  virtual void Take(std::shared_ptr<const ServingModel> self,
                    std::unique_ptr<InferenceRequest> request, InferenceCallback done) const = 0;
};

enum class ModelState { kLoading, kReady, kUnloading, kUnavailable };

// A row of the repository's index.
struct IndexEntry {
  std::string name;
  std::string version;  // empty where no version was ever loaded
  ModelState state = ModelState::kUnavailable;
  // Why it is unavailable; while it loads, what the load does; of a ready version its labels
  // ("labels: stable, test"), which the protocol has no other place for, and what is special about
  // it. Empty where there is nothing to say.
  std::string reason;
};

// Why a server is not ready.
struct NotReady {
  std::string reason;              // names no model: anybody may read it
  std::vector<IndexEntry> models;  // the first of those that it waits for, with why
};

// What becomes of a version: it serves, it takes no requests for a while, or it is not loaded any
// more.
enum class Readiness { kReady, kOutOfService, kGone };

// Thread-safe.
class ModelCatalog {
 public:
  virtual ~ModelCatalog() = default;

  // A ready version; `version`: a number, or a label that stands for one (`stable`); empty: the
  // latest that is served. INVALID_ARGUMENT: a name or version that no model can have; NOT_FOUND:
  // no such model or version is loaded; UNAVAILABLE: it is being loaded for the first time.
  virtual absl::StatusOr<std::shared_ptr<const ModelView>> Find(std::string_view name,
                                                                std::string_view version) const = 0;
  // The same for requests to run on.
  virtual absl::StatusOr<std::shared_ptr<const ServingModel>> Acquire(
      std::string_view name, std::string_view version) const = 0;

  // Every model of the repository, loaded or not, and every served version; by name, then version.
  virtual std::vector<IndexEntry> Index() const = 0;

  // Loads or reloads a model, and returns when it serves or has failed; a failed reload leaves the
  // old one serving. `config_override`: JSON of a ModelConfig, or empty. FAILED_PRECONDITION where
  // explicit control is off; UNAVAILABLE repository.busy where another call loads it, too many
  // wait or other loads have held the memory for long, repository.unloaded where it is unloaded
  // before its turn.
  virtual absl::Status Load(std::string_view name, std::string_view config_override) = 0;
  // The same with weights that the caller sends, each "<version>/model.safetensors": these versions
  // serve, and no others, until the model is loaded again or unloaded. Its description and labels
  // are those of its folder. `written` is called once their bytes have been let go of, where it
  // comes to that: until then the largest of them may be held twice. INVALID_ARGUMENT: files of
  // other names; FAILED_PRECONDITION: the model's weights are random.
  virtual absl::Status LoadFiles(std::string_view name, std::string_view config_override,
                                 std::vector<SentFile> files,
                                 absl::FunctionRef<void()> written) = 0;

  // Stops serving every version, and ends loads that have not begun; returns when the queue is
  // drained. UNAVAILABLE repository.busy where another call unloads it.
  virtual absl::Status Unload(std::string_view name) = 0;

  // `listener` is called whenever a model's readiness changes, from any thread, and once for each
  // ready model now. It must not call back into the catalog. Listeners are never removed: they live
  // as long as the catalog.
  using ReadinessListener =
      std::function<void(std::string_view name, std::string_view version, Readiness readiness)>;
  virtual void OnReadinessChange(ReadinessListener listener) = 0;
};

}  // namespace fovea
