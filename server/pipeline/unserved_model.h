// A version that is built as one that serves, and never serves.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// Loads and prepares `model` as ServedModel::Create does, and describes it, but neither warms it up
// nor keeps its weights: a ServableFactory for who asks whether a folder can be loaded. What is
// returned takes no request. Errors as ServedModel::Create's but for those of the warm-up.
absl::StatusOr<std::shared_ptr<Servable>> BuildUnservedModel(
    const VersionToLoad& model, const ServedModel::Environment& environment);

}  // namespace fovea
