#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/readiness.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {

ExitCode RunHealth(Client& client, const HealthOptions& options, const Console& console) {
  const auto health = client.Health(options.call);
  if (!health.ok()) return Report(console, health.status());
  if (!health->ready) {
    return Report(console, absl::UnavailableError("the server is not ready: " +
                                                  WhyNotReady(client, options.call)));
  }
  for (const std::string& text : options.models) {
    const auto model = ParseModel(text);
    if (!model.ok()) return ReportUsage(console, std::string(model.status().message()));
    const auto ready = client.Ready(*model, options.call);
    if (!ready.ok()) return Report(console, ready.status(), text);
    if (*ready) continue;
    const absl::Status unready = absl::UnavailableError("it is not ready");
    return Report(console, WhyNotReady(client, *model, unready, options.call), text);
  }
  console.out << "ready\n";
  return kOk;
}

}  // namespace fovea::client
