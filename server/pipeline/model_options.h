// From a version's description to the options of the parts that run it, and to its devices.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "model_zoo/model_description.h"
#include "server/executor/batch_executor.h"
#include "server/imaging/resize_plan.h"
#include "server/pipeline/served_model.h"
#include "server/repository/servable.h"

namespace fovea {

// As ArrangeLanes, of what the environment has.
absl::StatusOr<LaneArrangement> ArrangementOf(const VersionToLoad& model,
                                              const ServedModel::Environment& environment);

// `model` outlives what is returned.
BatchExecutorOptions ExecutorOptions(const VersionToLoad& model, const LaneArrangement& arrangement,
                                     const ServedModel::Environment& environment);

// How images are brought to the model `info`, which is prepared with `preprocessing`.
PreprocessSpec ImagingSpec(const models::ModelInfo& info,
                           const models::Preprocessing& preprocessing);

// What a model that is arranged so runs on: at least one.
absl::StatusOr<std::vector<std::unique_ptr<LaneDevice>>> DevicesOf(
    const LaneArrangement& arrangement, const ServedModel::Environment& environment);

}  // namespace fovea
