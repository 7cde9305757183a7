#include <algorithm>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/detect_report.h"
#include "client/cpp/cli/on_images.h"

namespace fovea::client {

namespace {

// Whether a model tells which pixels show an object. Thread-safe.
class HasMasks {
 public:
  absl::StatusOr<bool> Ask(Client& client, const ModelId& model, const CallOptions& options) {
    const absl::MutexLock lock(&mutex_);
    if (!known_) {
      const absl::StatusOr<ModelInfo> info = client.Model(model, options);
      if (!info.ok()) return info.status();
      known_ = std::ranges::find(info->outputs, "masks", &TensorInfo::name) != info->outputs.end();
    }
    return *known_;
  }

 private:
  absl::Mutex mutex_;
  std::optional<bool> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

ExitCode RunDetect(Client& client, const DetectOptions& options, const Console& console) {
  HasMasks has_masks;
  return RunOnImages<DetectResponse>(
      client, "detection", options, console,
      [&](const ModelId& model, const std::string& image) -> absl::StatusOr<DetectResponse> {
        const absl::StatusOr<bool> masks = has_masks.Ask(client, model, options.call);
        if (!masks.ok()) return masks.status();
        return client.Detect({.model = model,
                              .images = {image},
                              .score_threshold = options.score_threshold,
                              .max_detections = options.max_detections,
                              .classes = options.classes,
                              .masks = *masks},
                             options.call);
      },
      [&](const ModelId& model, std::optional<size_t> files) {
        return DetectReport(model, options, files, console);
      });
}

}  // namespace fovea::client
