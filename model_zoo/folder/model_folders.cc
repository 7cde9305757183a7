#include "model_zoo/folder/model_folders.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "base/variant_name.h"
#include "model_zoo/folder/labels.h"
#include "model_zoo/folder/names.h"

namespace fovea {
namespace {

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

// What lies in a folder that lacks the file it is for: perhaps that file, under the name that it
// has while it is being copied.
std::string FilesIn(const RepositoryFs& fs, const std::string& folder) {
  constexpr size_t kMost = 64;
  std::string text;
  const absl::StatusOr<std::vector<FolderEntry>> entries = fs.List(folder);
  if (!entries.ok()) return text;
  for (size_t i = 0; i < std::min(entries->size(), kMost); ++i) {
    const FolderEntry& entry = (*entries)[i];
    text += entry.name + "=";
    if (entry.kind != FolderEntry::Kind::kFile) continue;
    const auto file = fs.Open(Join(folder, entry.name));
    if (!file.ok()) continue;
    if (const auto identity = (*file)->Identity(); identity.ok()) text += Print(*identity);
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
    // A link that leads nowhere or out is told when its weights are looked for (row 26).
    if (version && entry.kind != FolderEntry::Kind::kFile) versions.push_back(*version);
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
      // A link that leads nowhere or out is told when the model is read.
      if (entry.kind != FolderEntry::Kind::kFolder && entry.kind != FolderEntry::Kind::kBadLink) {
        continue;
      }
      if (IsModelName(entry.name) && !IsVariantName(entry.name)) {
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
  if (IsVariantName(name)) {
    return NotFound("model.not_found", "no folder of a model is called " +
                                           std::string(kVariantPrefix) +
                                           "...: these names are those of experiments' variants");
  }
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
                                                 FileIdentity* identity,
                                                 std::vector<absl::Status>* problems) const {
  absl::StatusOr<FileContent> file =
      ReadWhole(fs, Join(name, kSpecFile), limits::kMaxModelSpecBytes);
  if (file.status().code() == absl::StatusCode::kNotFound) {
    return FailedPrecondition("model.no_spec", "the folder holds no model.textproto");
  }
  FOVEA_RETURN_IF_ERROR(file.status());
  if (identity != nullptr) *identity = file->identity;
  return ParseModelSpec(file->bytes, name, config_override, problems);
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
    const absl::StatusOr<ModelSpec> source = ReadSpec(**fs, next, {}, nullptr, nullptr);
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

void ModelFolders::ReadLabels(const RepositoryFs& fs, std::string_view name,
                              ModelFolderContents* contents) const {
  const absl::StatusOr<FileContent> file =
      ReadWhole(fs, Join(name, kLabelsFile), limits::kMaxLabelsBytes);
  if (!file.ok()) {
    if (!absl::IsNotFound(file.status())) contents->problems.push_back(file.status());
    return;
  }
  contents->fingerprint += Print(file->identity);
  auto labels = ParseLabels(file->bytes, &contents->problems);
  if (!labels.ok()) return;
  contents->labels = *std::move(labels);
  const int64_t classes = contents->spec.description.num_classes;
  if (classes == 0) return;
  if (absl::Status count = CheckLabelCount(contents->labels, classes); !count.ok()) {
    contents->problems.push_back(std::move(count));
  }
}

void ModelFolders::ReadVersions(const RepositoryFs& fs, std::string_view name,
                                const RepositoryFs* sent, ModelFolderContents* contents) const {
  std::vector<absl::Status>& problems = contents->problems;
  absl::StatusOr<std::vector<int64_t>> numbers = ListVersions(sent != nullptr ? *sent : fs, name);
  if (!numbers.ok()) return problems.push_back(numbers.status());
  const bool random = contents->spec.description.random_weights_seed.has_value();
  if (random && sent != nullptr) {
    return problems.push_back(
        FailedPrecondition("weights.random", "the model's weights are random: it takes no files"));
  }
  const absl::StatusOr<Owner> owner = sent != nullptr
                                          ? Owner{sent, std::string(name)}
                                          : FindOwner({&fs, std::string(name)}, contents->spec);
  if (!owner.ok()) problems.push_back(owner.status());
  // A model without files of its own needs no version folders either (which git would not keep).
  if (numbers->empty() && random) numbers->push_back(1);
  if (numbers->empty() && owner.ok()) numbers = ListVersions(*owner->fs, owner->name);
  if (!numbers.ok()) return problems.push_back(numbers.status());

  const std::string common = contents->fingerprint;
  for (const int64_t number : *numbers) {
    VersionFolderContents version{.number = number,
                                  .fingerprint = common + std::to_string(number) + "="};
    if (!random && owner.ok()) {
      absl::StatusOr<WeightsFile> weights = FindWeights(*owner->fs, owner->name, number);
      if (weights.ok()) {
        version.fingerprint += Print(weights->identity);
        version.weights = *std::move(weights);
      } else if (absl::IsNotFound(weights.status())) {
        version.status =
            FailedPrecondition("weights.missing", "model " + owner->name + " has no version " +
                                                      std::to_string(number));
      } else {
        version.status = weights.status();
      }
      if (!version.weights) {
        version.fingerprint += FilesIn(*owner->fs, Join(owner->name, std::to_string(number)));
      }
      // Without a spec, nobody knows whether the version needs a file.
      if (!contents->spec_is_known && ReasonOf(version.status) == "weights.missing")
        version.status = {};
      if (owner->name != name) {
        if (version.weights) version.weights->shown += " of model " + owner->name;
        if (!version.status.ok()) version.status = WithContext("weights_of", version.status);
      }
    }
    if (version.status.ok() && contents->spec.canary) {
      auto canary = FindCanary(fs, name, number, *contents->spec.canary);
      version.status = canary.status();
      if (canary.ok()) {
        version.fingerprint += Print(canary->input.identity);
        if (canary->expected) version.fingerprint += Print(canary->expected->identity);
        version.canary = *std::move(canary);
      }
    }
    for (const std::string_view part :
         {std::string_view(" "), std::string_view(version.fingerprint), Text(version.status)}) {
      contents->fingerprint += part;
    }
    contents->versions.push_back(std::move(version));
  }
  if (contents->versions.empty() && contents->spec_is_known && owner.ok()) {
    problems.push_back(FailedPrecondition("model.no_version", "the folder holds no version"));
  }
}

absl::Status ModelFolders::ReadAll(std::string_view name, std::string_view config_override,
                                   const RepositoryFs* sent, ModelFolderContents* contents) const {
  FOVEA_ASSIGN_OR_RETURN(const RepositoryFs* const fs, Find(name));
  FileIdentity spec_identity;
  absl::StatusOr<ModelSpec> spec =
      ReadSpec(*fs, name, config_override, &spec_identity, &contents->problems);
  contents->fingerprint = Print(spec_identity);
  if (!spec.ok() && contents->problems.empty()) contents->problems.push_back(spec.status());
  contents->spec_is_known = spec.ok();
  if (spec.ok()) contents->spec = *std::move(spec);
  ReadLabels(*fs, name, contents);
  ReadVersions(*fs, name, sent, contents);
  return contents->problems.empty() ? absl::OkStatus() : contents->problems.front();
}

ModelFolderContents ModelFolders::Read(std::string_view name, std::string_view config_override,
                                       const RepositoryFs* weights) const {
  ModelFolderContents contents;
  contents.status =
      OrOutOfMemory([&] { return ReadAll(name, config_override, weights, &contents); });
  if (contents.problems.empty() && !contents.status.ok()) {
    contents.problems.push_back(contents.status);
  }
  if (!contents.status.ok()) contents.fingerprint += Text(contents.status);
  return contents;
}

absl::StatusOr<std::vector<int64_t>> ServedVersions(const ModelFolderContents& contents) {
  std::vector<int64_t> available;
  for (const VersionFolderContents& version : contents.versions) {
    available.push_back(version.number);
  }
  std::vector<int64_t> served = contents.spec.version_policy.Select(available);
  if (served.empty()) {
    return FailedPrecondition("model.no_version", "the version policy serves no version there is");
  }
  for (const auto& [label, version] : contents.spec.version_labels) {
    if (std::binary_search(served.begin(), served.end(), version)) continue;
    const bool there = std::binary_search(available.begin(), available.end(), version);
    return FailedPrecondition(
        "model.bad_label",
        "version_labels: " + label + " stands for version " + std::to_string(version) +
            (there ? ", which the version policy does not serve" : ", which is not there"));
  }
  return served;
}

}  // namespace fovea
