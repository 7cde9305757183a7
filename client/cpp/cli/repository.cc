// `fovea load` and `fovea unload`.
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

// Goes on after a model that fails, but not without a server.
template <typename Change>
ExitCode ForEachModel(const RepositoryOptions& options, const Console& console, const char* done,
                      Change change) {
  ExitCode exit_code = kOk;
  for (const std::string& model : options.models) {
    if (absl::Status status = change(model); status.ok()) {
      console.out << done << ' ' << Printable(model) << '\n';
    } else {
      exit_code = Report(console, status, model);
      if (exit_code == kUnreachable) break;
    }
  }
  return exit_code;
}

}  // namespace

ExitCode RunLoad(Client& client, const RepositoryOptions& options, const Console& console) {
  return ForEachModel(options, console, "loaded", [&](const std::string& model) {
    return WhyNotReady(client, {.name = model}, client.Load(model, "", options.call), options.call);
  });
}

ExitCode RunUnload(Client& client, const RepositoryOptions& options, const Console& console) {
  return ForEachModel(options, console, "unloaded",
                      [&](const std::string& model) { return client.Unload(model, options.call); });
}

}  // namespace fovea::client
