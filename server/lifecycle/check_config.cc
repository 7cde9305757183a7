#include "server/lifecycle/check_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model_zoo/folder/model_folders.h"
#include "server/core/listen.h"

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

void CheckModel(const ModelFolders& folders, const std::string& name,
                std::vector<std::string>& faults) {
  const ModelFolderContents model = folders.Read(name);
  if (!model.status.ok()) {
    faults.push_back(absl::StrCat("model ", name, ": ", model.status.message()));
  }
  for (const VersionFolderContents& version : model.versions) {
    if (version.status.ok()) continue;
    faults.push_back(
        absl::StrCat("model ", name, ", version ", version.number, ": ", version.status.message()));
  }
}

}  // namespace

std::vector<std::string> CheckConfig(const ServerOptions& options,
                                     std::vector<std::unique_ptr<RepositoryFs>> repositories) {
  std::vector<std::string> faults;
  CheckPorts(options, faults);
  const size_t faults_of_ports = faults.size();
  for (const auto& repository : repositories) {
    const absl::Status readable = CheckRepository(*repository);
    if (!readable.ok()) faults.emplace_back(readable.message());
  }
  if (faults.size() > faults_of_ports) return faults;  // what models there are is not known
  const ModelFolders folders(std::move(repositories));
  const ModelFolders::Listing listing = folders.List();
  if (!listing.problem.ok()) faults.emplace_back(listing.problem.message());
  const std::vector<std::string>& wanted =
      options.model_control_mode == "explicit" ? options.load_models : listing.names;
  for (const std::string& name : wanted) CheckModel(folders, name, faults);
  return faults;
}

}  // namespace fovea
