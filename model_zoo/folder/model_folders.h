// What lies on disk: one or several repository folders, read as one. Nothing here is remembered;
// each call looks anew.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model_zoo/folder/canary_files.h"
#include "model_zoo/folder/model_spec.h"
#include "model_zoo/folder/repository_fs.h"
#include "model_zoo/folder/weights_file.h"

namespace fovea {

// A version as it was found.
struct VersionFolderContents {
  int64_t number = 0;
  absl::Status status;                 // why it cannot be loaded: no weights, a bad format, ...
  std::optional<WeightsFile> weights;  // none where they are random, or where `status` says why
  std::optional<FoundCanary> canary;   // none where the spec has none, or `status` says why
  std::string fingerprint;  // differs when the spec, the labels, the weights or the canary do
};

// A model as it was found.
struct ModelFolderContents {
  // Why no version can be loaded: FAILED_PRECONDITION, or UNAVAILABLE where the disk failed.
  absl::Status status;
  // Everything that is wrong with the folder apart from its versions, `status` first. Reading goes
  // on behind a problem.
  std::vector<absl::Status> problems;
  bool spec_is_known = false;  // whatever else is wrong
  ModelSpec spec;
  std::vector<std::string> labels;
  // By number; every one there is, whatever the version policy says.
  std::vector<VersionFolderContents> versions;
  std::string fingerprint;  // differs when anything above does
};

// The versions that its policy serves, ascending. FAILED_PRECONDITION: none of those there are, or
// a label stands for another one.
absl::StatusOr<std::vector<int64_t>> ServedVersions(const ModelFolderContents& contents);

// Thread-safe.
class ModelFolders {
 public:
  explicit ModelFolders(std::vector<std::unique_ptr<RepositoryFs>> repositories);

  // The names of all models, ascending. `problem`: a repository could not be listed, so names may
  // be missing; the message says which, and is not for callers.
  struct Listing {
    std::vector<std::string> names;
    std::vector<std::string> ignored;  // folders whose name no model can have
    absl::Status problem;
  };
  Listing List() const;

  // Reads a model. A status of NOT_FOUND: no repository has it; FAILED_PRECONDITION: two have it.
  // INVALID_ARGUMENT: `config_override` (ParseModelSpec) is at fault. `weights`: where its versions
  // lie instead, which outlives what is returned; null: in its folder. FAILED_PRECONDITION
  // weights.random: there are some, and the model's are random.
  ModelFolderContents Read(std::string_view name, std::string_view config_override = {},
                           const RepositoryFs* weights = nullptr) const;

 private:
  struct Owner {
    const RepositoryFs* fs;
    std::string name;
  };

  absl::StatusOr<const RepositoryFs*> Find(std::string_view name) const;
  absl::StatusOr<ModelSpec> ReadSpec(const RepositoryFs& fs, std::string_view name,
                                     std::string_view config_override, FileIdentity* identity,
                                     std::vector<absl::Status>* problems) const;
  // Follows weights_of to the model that has files. FAILED_PRECONDITION: a cycle, or nothing there.
  absl::StatusOr<Owner> FindOwner(Owner model, const ModelSpec& spec) const;
  // Both add to the contents' problems. Out of memory throws.
  void ReadLabels(const RepositoryFs& fs, std::string_view name,
                  ModelFolderContents* contents) const;
  void ReadVersions(const RepositoryFs& fs, std::string_view name, const RepositoryFs* sent,
                    ModelFolderContents* contents) const;
  absl::Status ReadAll(std::string_view name, std::string_view config_override,
                       const RepositoryFs* sent, ModelFolderContents* contents) const;

  std::vector<std::unique_ptr<RepositoryFs>> repositories_;
};

}  // namespace fovea
