#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/detect_report.h"
#include "client/cpp/cli/on_images.h"

namespace fovea::client {

ExitCode RunDetect(Client& client, const DetectOptions& options, const Console& console) {
  return RunOnImages<DetectResponse>(
      client, "detection", options, console,
      [&](const ModelId& model, const std::string& image) {
        return client.Detect({.model = model,
                              .images = {image},
                              .score_threshold = options.score_threshold,
                              .max_detections = options.max_detections,
                              .classes = options.classes},
                             options.call);
      },
      [&](const ModelId& model, std::optional<size_t> files) {
        return DetectReport(model, options, files, console);
      });
}

}  // namespace fovea::client
