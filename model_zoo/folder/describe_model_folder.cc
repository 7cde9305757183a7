#include "model_zoo/folder/describe_model_folder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/folder/model_folders.h"
#include "model_zoo/folder/names.h"

namespace fovea {
namespace {

[[noreturn]] void Throw(const std::string& model, const absl::Status& status) {
  throw std::runtime_error("model " + model + ": " + std::string(status.message()));
}

struct FolderOnDisk {
  std::filesystem::path
      path;  // canonical, so that "." and a trailing slash have a name and a parent
  std::unique_ptr<ModelFolders> repository;  // which the contents' files refer to
  ModelFolderContents contents;
};

FolderOnDisk Read(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::canonical(folder, error);
  if (error) throw std::runtime_error("there is no model folder " + folder.string());
  const std::string name = full.filename().string();
  if (!IsModelName(name)) throw std::runtime_error(folder.string() + " is not called like a model");

  std::vector<std::unique_ptr<RepositoryFs>> repositories;
  repositories.push_back(MakeRepositoryFs(full.parent_path()));
  auto repository = std::make_unique<ModelFolders>(std::move(repositories));
  ModelFolderContents contents = repository->Read(name);
  FolderOnDisk read{full, std::move(repository), std::move(contents)};
  if (!read.contents.status.ok()) Throw(name, read.contents.status);
  return read;
}

}  // namespace

models::ModelDescription DescribeModelFolder(const std::filesystem::path& folder) {
  return DescribeModelVersion(folder, std::nullopt).description;
}

ModelVersionOnDisk DescribeModelVersion(const std::filesystem::path& folder,
                                        std::optional<int64_t> version) {
  const auto [full, repository, model] = Read(folder);
  const std::string name = full.filename().string();
  if (!version) {
    const absl::StatusOr<std::vector<int64_t>> served = ServedVersions(model);
    if (!served.ok()) Throw(name, served.status());
    version = served->back();
  }
  const auto found = std::ranges::find(model.versions, *version, &VersionFolderContents::number);
  if (found == model.versions.end()) {
    throw std::runtime_error("model " + name + " has no version " + std::to_string(*version));
  }
  if (!found->status.ok()) Throw(name, found->status);
  ModelVersionOnDisk described{.description = model.spec.description,
                               .version = *version,
                               .labels = model.labels,
                               .untrained = model.spec.untrained};
  if (found->weights) {
    const auto file = OpenWeights(*found->weights);
    if (!file.ok()) Throw(name, file.status());
    described.description.weights = full.parent_path() / found->weights->path;
  }
  return described;
}

models::Preprocessing PreprocessingOfModelFolder(const std::filesystem::path& folder,
                                                 const models::Preprocessing& published) {
  return Read(folder).contents.spec.preprocessing.AppliedTo(published);
}

}  // namespace fovea
