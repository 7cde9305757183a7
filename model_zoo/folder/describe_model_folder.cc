#include "model_zoo/folder/describe_model_folder.h"

#include <memory>
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
  const auto [full, repository, model] = Read(folder);
  const std::string name = full.filename().string();
  const absl::StatusOr<std::vector<int64_t>> served = ServedVersions(model);
  if (!served.ok()) Throw(name, served.status());
  models::ModelDescription description = model.spec.description;
  for (const VersionFolderContents& version : model.versions) {
    if (version.number != served->back()) continue;
    if (!version.status.ok()) Throw(name, version.status);
    if (!version.weights) continue;
    const auto file = OpenWeights(*version.weights);
    if (!file.ok()) Throw(name, file.status());
    description.weights = full.parent_path() / version.weights->path;
  }
  return description;
}

models::Preprocessing PreprocessingOfModelFolder(const std::filesystem::path& folder,
                                                 const models::Preprocessing& published) {
  return Read(folder).contents.spec.preprocessing.AppliedTo(published);
}

}  // namespace fovea
