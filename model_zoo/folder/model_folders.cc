#include "model_zoo/folder/model_folders.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "model_zoo/folder/labels.h"
#include "model_zoo/folder/names.h"

namespace fovea {
namespace {

constexpr std::string_view kSpecName = "model.textproto";

std::string Join(std::string_view folder, std::string_view name) {
  return std::string(folder) + "/" + std::string(name);
}

std::string Print(const FileIdentity& identity) {
  std::string text;
  for (const uint64_t number :
       {identity.device, identity.inode, static_cast<uint64_t>(identity.size),
        static_cast<uint64_t>(identity.modified_ns), static_cast<uint64_t>(identity.changed_ns)}) {
    text += std::to_string(number) + ":";
  }
  return text;
}

std::string_view Text(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

absl::Status WithContext(std::string_view context, const absl::Status& status) {
  return MakeError(
      status.code(), ReasonOf(status),
      std::string(context) + ": " + std::string(status.message().data(), status.message().size()));
}

absl::StatusOr<std::vector<int64_t>> ListVersions(const RepositoryFs& fs, std::string_view model) {
  FOVEA_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, fs.List(model));
  std::vector<int64_t> versions;
  for (const FolderEntry& entry : entries) {
    const std::optional<int64_t> version = ParseVersion(entry.name);
    if (version && entry.kind == FolderEntry::Kind::kFolder) versions.push_back(*version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

}  // namespace

ModelFolders::ModelFolders(std::vector<std::unique_ptr<RepositoryFs>> repositories)
    : repositories_(std::move(repositories)) {}

ModelFolders::Listing ModelFolders::List() const {
  Listing listing;
  std::set<std::string> names;
  for (const auto& fs : repositories_) {
    const absl::StatusOr<std::vector<FolderEntry>> entries = fs->List("");
    if (!entries.ok()) {
      listing.problem = MakeError(entries.status().code(), ReasonOf(entries.status()),
                                  fs->where() + ": " + std::string(entries.status().message()));
      continue;
    }
    for (const FolderEntry& entry : *entries) {
      if (entry.kind != FolderEntry::Kind::kFolder) continue;
      if (IsModelName(entry.name)) {
        names.insert(entry.name);
      } else {
        listing.ignored.push_back(entry.name);
      }
    }
  }
  listing.names.assign(names.begin(), names.end());
  return listing;
}

absl::StatusOr<const RepositoryFs*> ModelFolders::Find(std::string_view name) const {
  const RepositoryFs* found = nullptr;
  absl::Status problem;
  for (const auto& fs : repositories_) {
    const absl::Status status = fs->List(name).status();
    if (status.ok() && found != nullptr) {
      return FailedPrecondition("model.ambiguous",
                                "model " + std::string(name) + " lies in two repositories");
    }
    if (status.ok()) {
      found = fs.get();
    } else if (status.code() != absl::StatusCode::kNotFound) {
      problem = status;
    }
  }
  // An unreadable repository may hold a second one: better not to guess.
  if (!problem.ok()) return problem;
  if (found == nullptr) {
    return NotFound("model.not_found", "there is no model " + std::string(name));
  }
  return found;
}

absl::StatusOr<ModelSpec> ModelFolders::ReadSpec(const RepositoryFs& fs, std::string_view name,
                                                 std::string_view config_override,
                                                 FileIdentity* identity) const {
  absl::StatusOr<FileContent> file =
      ReadWhole(fs, Join(name, kSpecName), limits::kMaxModelSpecBytes);
  if (file.status().code() == absl::StatusCode::kNotFound) {
    return FailedPrecondition("model.no_spec", "the folder holds no model.textproto");
  }
  FOVEA_RETURN_IF_ERROR(file.status());
  if (identity != nullptr) *identity = file->identity;
  return ParseModelSpec(file->bytes, name, config_override);
}

absl::StatusOr<ModelFolders::Owner> ModelFolders::FindOwner(Owner model,
                                                            const ModelSpec& spec) const {
  std::set<std::string> seen = {model.name};
  std::string chain = model.name;
  std::string next = spec.weights_of;
  while (!next.empty()) {
    chain += " -> " + next;
    if (!seen.insert(next).second) {
      return FailedPrecondition("weights.cycle", "weights_of goes round in a circle: " + chain);
    }
    const absl::StatusOr<const RepositoryFs*> fs = Find(next);
    if (fs.status().code() == absl::StatusCode::kNotFound) {
      return FailedPrecondition("weights.no_such_model", "weights_of: there is no model " + next);
    }
    if (!fs.ok()) return WithContext("weights_of", fs.status());
    const absl::StatusOr<ModelSpec> source = ReadSpec(**fs, next, {}, nullptr);
    if (!source.ok()) return WithContext("weights_of: model " + next, source.status());
    if (source->description.random_weights_seed) {
      return FailedPrecondition("weights.random",
                                "weights_of: model " + next + " has random weights, and no file");
    }
    model = {*fs, next};
    next = source->weights_of;
  }
  return model;
}

absl::Status ModelFolders::ReadAll(std::string_view name, std::string_view config_override,
                                   ModelFolderContents* contents) const {
  FOVEA_ASSIGN_OR_RETURN(const RepositoryFs* const fs, Find(name));
  FileIdentity spec_identity;
  absl::StatusOr<ModelSpec> spec = ReadSpec(*fs, name, config_override, &spec_identity);
  contents->fingerprint = Print(spec_identity);
  FOVEA_RETURN_IF_ERROR(spec.status());
  contents->spec = *std::move(spec);

  const absl::StatusOr<FileContent> labels =
      ReadWhole(*fs, Join(name, kLabelsFile), limits::kMaxLabelsBytes);
  if (labels.ok()) {
    contents->fingerprint += Print(labels->identity);
    FOVEA_ASSIGN_OR_RETURN(contents->labels, ParseLabels(labels->bytes));
    const int64_t classes = contents->spec.description.num_classes;
    if (classes != 0) FOVEA_RETURN_IF_ERROR(CheckLabelCount(contents->labels, classes));
  } else if (labels.status().code() != absl::StatusCode::kNotFound) {
    return labels.status();
  }

  FOVEA_ASSIGN_OR_RETURN(std::vector<int64_t> numbers, ListVersions(*fs, name));
  const bool random = contents->spec.description.random_weights_seed.has_value();
  FOVEA_ASSIGN_OR_RETURN(const Owner owner, FindOwner({fs, std::string(name)}, contents->spec));
  // A model without files of its own needs no version folders either (which git would not keep).
  if (numbers.empty() && random) numbers = {1};
  if (numbers.empty()) {
    FOVEA_ASSIGN_OR_RETURN(numbers, ListVersions(*owner.fs, owner.name));
  }
  const std::string common = contents->fingerprint;
  for (const int64_t number : numbers) {
    VersionFolderContents version{.number = number,
                                  .fingerprint = common + std::to_string(number) + "="};
    if (!random) {
      absl::StatusOr<WeightsFile> weights = FindWeights(*owner.fs, owner.name, number);
      if (weights.ok()) {
        version.fingerprint += Print(weights->identity);
        version.weights = *std::move(weights);
      } else if (weights.status().code() == absl::StatusCode::kNotFound) {
        version.status = FailedPrecondition(
            "weights.missing", "model " + owner.name + " has no version " + std::to_string(number));
      } else {
        version.status = weights.status();
      }
      if (owner.name != name) {
        if (version.weights) version.weights->shown += " of model " + owner.name;
        if (!version.status.ok()) version.status = WithContext("weights_of", version.status);
      }
    }
    for (const std::string_view part :
         {std::string_view(" "), std::string_view(version.fingerprint), Text(version.status)}) {
      contents->fingerprint += part;
    }
    contents->versions.push_back(std::move(version));
  }
  if (contents->versions.empty()) {
    return FailedPrecondition("model.no_version", "the folder holds no version");
  }
  return absl::OkStatus();
}

ModelFolderContents ModelFolders::Read(std::string_view name,
                                       std::string_view config_override) const {
  ModelFolderContents contents;
  contents.status = OrOutOfMemory([&] { return ReadAll(name, config_override, &contents); });
  if (!contents.status.ok()) contents.fingerprint += Text(contents.status);
  return contents;
}

}  // namespace fovea
