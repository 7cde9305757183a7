#include "server/lifecycle/check_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model_zoo/folder/model_folders.h"
#include "server/api/authenticator.h"
#include "server/core/clock.h"
#include "server/core/listen.h"
#include "server/lifecycle/credentials.h"
#include "server/lifecycle/tracing.h"
#include "server/observe/metrics.h"
#include "server/transport/http/cross_origin.h"

namespace fovea {
namespace {

void CheckPorts(const ServerOptions& options, std::vector<std::string>& faults) {
  const std::pair<const char*, int> ports[] = {{"--grpc-port", options.grpc_port},
                                               {"--http-port", options.http_port},
                                               {"--metrics-port", options.metrics_port}};
  for (const auto& [flag, port] : ports) {
    if (port < 0) continue;
    const auto listening = Listen(options.host, port, flag);
    if (listening.ok()) continue;
    std::string fault(listening.status().message());
    // A host that cannot be listened on is told once.
    if (faults.empty() || faults.back() != fault) faults.push_back(std::move(fault));
  }
}

// As the server takes them at its start.
void CheckCallers(const ServerOptions& options, std::vector<std::string>& faults) {
  const auto tell = [&](const absl::Status& status) {
    if (!status.ok()) faults.emplace_back(status.message());
  };
  for (const std::string& origin : options.http_allow_origins) tell(CheckOrigin(origin));
  for (const std::string& host : options.http_hosts) tell(CheckHttpHost(host));
  Metrics metrics;
  Authenticator authenticator;
  const auto credentials = Credentials::Create(options, metrics, SteadyClock());
  tell(credentials.status());
  if (credentials.ok()) tell((*credentials)->Guard(authenticator));
  tell(CheckTracing(options));
}

void CheckModelFolder(const ModelFolders& folders, const std::string& name,
                      std::vector<std::string>& faults) {
  const ModelFolderContents model = folders.Read(name);
  std::vector<absl::Status> problems = model.problems;
  if (problems.empty() && !model.status.ok()) problems.push_back(model.status);
  const auto served = ServedVersions(model);
  if (problems.empty() && !served.ok()) problems.push_back(served.status());
  for (const absl::Status& problem : problems) {
    faults.push_back(absl::StrCat("model ", name, ": ", problem.message()));
  }
  for (const VersionFolderContents& version : model.versions) {
    const bool is_served =
        !served.ok() || std::ranges::find(*served, version.number) != served->end();
    if (version.status.ok() || !is_served) continue;
    faults.push_back(
        absl::StrCat("model ", name, ", version ", version.number, ": ", version.status.message()));
  }
}

}  // namespace

std::vector<std::string> CheckConfig(const ServerOptions& options,
                                     std::vector<std::unique_ptr<RepositoryFs>> repositories) {
  std::vector<std::string> faults;
  CheckPorts(options, faults);
  CheckCallers(options, faults);
  const size_t faults_so_far = faults.size();
  for (const auto& repository : repositories) {
    const absl::Status readable = CheckRepository(*repository);
    if (!readable.ok()) faults.emplace_back(readable.message());
  }
  if (faults.size() > faults_so_far) return faults;  // what models there are is not known
  const ModelFolders folders(std::move(repositories));
  const ModelFolders::Listing listing = folders.List();
  if (!listing.problem.ok()) faults.emplace_back(listing.problem.message());
  const std::vector<std::string>& wanted =
      options.model_control_mode == "explicit" ? options.load_models : listing.names;
  for (const std::string& name : wanted) CheckModelFolder(folders, name, faults);
  return faults;
}

}  // namespace fovea
