#include "server/repository/load_version.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "model_zoo/folder/labels.h"

namespace fovea {

absl::StatusOr<std::shared_ptr<Servable>> LoadVersion(
    const ModelFolderContents& model, const VersionFolderContents& version, bool sent,
    const ServableFactory& factory, CancellationPtr cancellation,
    std::function<void(const absl::Status&)> on_lost, std::function<void(std::string)> on_progress,
    int loads_together) {
  FOVEA_RETURN_IF_ERROR(version.status);
  VersionToLoad parsed{.name = model.spec.description.name,
                       .version = version.number,
                       .spec = model.spec,
                       .weights_file = sent ? std::nullopt : version.weights,
                       .labels = model.labels,
                       .cancellation = std::move(cancellation),
                       .on_lost = std::move(on_lost),
                       .on_progress = std::move(on_progress),
                       .loads_together = loads_together};
  std::unique_ptr<RepositoryFile> file;
  if (version.weights) {
    FOVEA_ASSIGN_OR_RETURN(file, OpenWeights(*version.weights));
    parsed.spec.description.weights = file->path();
  }
  FOVEA_ASSIGN_OR_RETURN(std::shared_ptr<Servable> servable, factory(parsed));
  FOVEA_CHECK(servable != nullptr && servable->view() != nullptr);

  const ModelView& view = *servable->view();
  FOVEA_CHECK(view.name == parsed.name && view.version == std::to_string(parsed.version));
  FOVEA_RETURN_IF_ERROR(CheckLabelCount(parsed.labels, view.num_classes));
  if (file != nullptr) {
    // A file that somebody writes into while it is read may be half old and half new.
    FOVEA_ASSIGN_OR_RETURN(const FileIdentity identity, file->Identity());
    if (identity != version.weights->identity) {
      return Unavailable("repository.changed",
                         version.weights->shown + " changed while it was loaded");
    }
  }
  return servable;
}

}  // namespace fovea
