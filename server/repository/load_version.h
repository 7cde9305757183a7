// From what lies on disk to a servable: the steps around the factory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_zoo/folder/model_folders.h"
#include "server/core/cancellation.h"
#include "server/repository/servable.h"

namespace fovea {

// Builds `version` of `model`, both as they were read; `on_lost`, `on_progress` and
// `loads_together` as VersionToLoad's. `sent`: its weights came with the load, and are gone
// afterwards. Blocks for as long as the factory does. Besides the factory's errors:
// FAILED_PRECONDITION where the weights are in no format that is read, or there are as many labels
// as the model has no classes; UNAVAILABLE where the file changed before the model was ready.
absl::StatusOr<std::shared_ptr<Servable>> LoadVersion(
    const ModelFolderContents& model, const VersionFolderContents& version, bool sent,
    const ServableFactory& factory, CancellationPtr cancellation,
    std::function<void(const absl::Status&)> on_lost, std::function<void(std::string)> on_progress,
    int loads_together = 1);

}  // namespace fovea
