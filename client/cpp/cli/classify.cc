#include "client/cpp/cli/classify_report.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/on_images.h"

namespace fovea::client {

ExitCode RunClassify(Client& client, const ClassifyOptions& options, const Console& console) {
  return RunOnImages<ClassifyResponse>(
      client, "classification", options, console,
      [&](const ModelId& model, const std::string& image) {
        return client.Classify({.model = model, .images = {image}, .top_k = options.top_k},
                               options.call);
      },
      [&](const ModelId& model, std::optional<size_t> files) {
        return ClassifyReport(model, options, files, console);
      });
}

}  // namespace fovea::client
