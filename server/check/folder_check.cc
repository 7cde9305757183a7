#include "server/check/folder_check.h"

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "model_zoo/folder/file_error.h"
#include "model_zoo/folder/labels.h"
#include "model_zoo/folder/model_folders.h"
#include "model_zoo/folder/names.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/executor/weights_header.h"
#include "server/repository/canary.h"
#include "server/repository/janitor.h"
#include "server/repository/load_version.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

// A sentence that was told of the folder is not told of its versions again.
void Add(CheckedFolder& folder, const absl::Status& problem, int64_t version = 0,
         std::string file = "") {
  Finding finding{.version = version,
                  .file = std::move(file),
                  .reason = ReasonOf(problem),
                  .sentence = std::string(problem.message())};
  if (FileLocation at = LocationOf(problem); !at.file.empty()) {
    finding.file = std::move(at.file);
    finding.line = at.line;
  }
  const auto told = [&](const Finding& other) {
    return other.sentence == finding.sentence && (other.version == 0 || other.version == version);
  };
  if (std::none_of(folder.findings.begin(), folder.findings.end(), told)) {
    folder.findings.push_back(std::move(finding));
  }
}

// Of a version whose model is not known, the file is looked at by itself.
absl::Status CheckWeights(const VersionFolderContents& version) {
  FOVEA_RETURN_IF_ERROR(version.status);
  if (!version.weights) return absl::OkStatus();
  FOVEA_ASSIGN_OR_RETURN(const std::unique_ptr<RepositoryFile> file, OpenWeights(*version.weights));
  return CheckWeightsHeader(file->path());
}

// Loads the version as a server does, and lets it go again.
absl::Status TryVersion(const ModelFolderContents& model, const VersionFolderContents& version,
                        const ServableFactory& factory, bool ask_canaries) {
  FOVEA_ASSIGN_OR_RETURN(
      std::shared_ptr<Servable> servable,
      LoadVersion(model, version, /*sent=*/false, factory, std::make_shared<Cancellation>(),
                  /*on_lost=*/nullptr, /*on_progress=*/nullptr));
  if (!ask_canaries || !version.canary) return absl::OkStatus();
  FOVEA_ASSIGN_OR_RETURN(const Canary canary, ReadCanaryOf(model, version));
  Janitor janitor;  // a request lets go of its version on a thread of the version's own
  return AskCanary(janitor.Adopt(std::move(servable), [] {}), canary, SteadyClock(),
                   Cancellation());
}

CheckedFolder CheckModelFolder(const ModelFolders& folders, const fs::path& path,
                               const ServableFactory& factory, bool ask_canaries) {
  CheckedFolder checked{.path = path};
  const ModelFolderContents model = folders.Read(path.filename().string());
  for (const absl::Status& problem : model.problems) Add(checked, problem);

  const auto check = [&](const VersionFolderContents& version) {
    const absl::Status status = model.spec_is_known
                                    ? TryVersion(model, version, factory, ask_canaries)
                                    : CheckWeights(version);
    if (status.ok()) return;
    const std::string own = std::to_string(version.number) + "/" + std::string(kWeightsFile);
    const bool of_weights = version.weights && version.weights->shown == own &&
                            ReasonOf(status).starts_with("weights.");
    Add(checked, status, version.number, of_weights ? own : "");
  };
  if (!model.spec_is_known) {
    for (const VersionFolderContents& version : model.versions) check(version);
    return checked;
  }
  checked.fast_decode = model.spec.preprocessing.fast_decode;
  const absl::StatusOr<std::vector<int64_t>> served = ServedVersions(model);
  if (!served.ok()) {
    if (!model.versions.empty()) Add(checked, served.status());
    return checked;
  }
  checked.versions = *served;
  for (const VersionFolderContents& version : model.versions) {
    if (std::binary_search(served->begin(), served->end(), version.number)) check(version);
  }
  return checked;
}

ModelFolders FoldersOf(const fs::path& repository) {
  std::vector<std::unique_ptr<RepositoryFs>> repositories;
  repositories.push_back(MakeRepositoryFs(repository));
  return ModelFolders(std::move(repositories));
}

// What only a model's folder holds.
bool IsModelFolder(const fs::path& folder) {
  std::error_code error;
  if (fs::symlink_status(folder / kSpecFile, error).type() != fs::file_type::not_found ||
      fs::symlink_status(folder / kLabelsFile, error).type() != fs::file_type::not_found) {
    return true;
  }
  const fs::directory_iterator entries(folder, error);
  return std::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return ParseVersion(entry.path().filename().string()).has_value() &&
           fs::symlink_status(entry.path() / kWeightsFile, ignored).type() !=
               fs::file_type::not_found;
  });
}

}  // namespace

absl::StatusOr<std::vector<CheckedFolder>> CheckFolders(const fs::path& path,
                                                        const ServableFactory& factory,
                                                        bool ask_canaries) {
  std::error_code error;
  const fs::path full = fs::canonical(path, error);
  if (error || !fs::is_directory(full, error)) {
    return NotFound("check.not_found", "there is no folder " + path.string());
  }
  std::vector<CheckedFolder> checked;
  if (IsModelFolder(full)) {
    if (!IsModelName(full.filename().string())) {
      checked.push_back({.path = full});
      Add(checked.back(), FailedPrecondition("model.bad_name",
                                             "the folder's name is not one that a model can have"));
      return checked;
    }
    checked.push_back(CheckModelFolder(FoldersOf(full.parent_path()), full, factory, ask_canaries));
    return checked;
  }
  const ModelFolders folders = FoldersOf(full);
  const ModelFolders::Listing listing = folders.List();
  CheckedFolder repository{.path = full};
  if (!listing.problem.ok()) Add(repository, listing.problem);
  for (const std::string& name : listing.ignored) {
    Finding& finding = repository.findings.emplace_back();
    finding.file = name;
    finding.reason = "model.bad_name";
    finding.sentence = "the folder " + name + " is not served: no model can have its name";
  }
  if (listing.problem.ok() && listing.names.empty()) {
    Add(repository, FailedPrecondition("repository.empty", "the folder holds no model"));
  }
  if (!repository.findings.empty()) checked.push_back(std::move(repository));
  for (const std::string& name : listing.names) {
    checked.push_back(CheckModelFolder(folders, full / name, factory, ask_canaries));
  }
  return checked;
}

}  // namespace fovea
