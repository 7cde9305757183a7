#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/on_images.h"
#include "client/cpp/cli/segment_report.h"

namespace fovea::client {

ExitCode RunSegment(Client& client, const SegmentOptions& options, const Console& console) {
  return RunOnImages<SegmentResponse>(
      client, "segmentation", options, console,
      [&](const ModelId& model, const std::string& image) {
        return client.Segment({.model = model, .images = {image}}, options.call);
      },
      [&](const ModelId& model, std::optional<size_t> files) {
        return SegmentReport(model, options, files, console);
      });
}

}  // namespace fovea::client
