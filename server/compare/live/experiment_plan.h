// Which experiments are allowed, and whether models can be the arms of one.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/core/live_experiment.h"
#include "server/core/model_catalog.h"

namespace fovea {

// INVALID_ARGUMENT experiment.bad_plan: a name, a weight or a bound that cannot be, too few arms or
// too many, a baseline that is not the model itself.
absl::Status CheckPlan(const ExperimentPlan& plan);

// Whether every request that `baseline` can answer `arm` can answer too, in the same terms.
// INVALID_ARGUMENT experiment.other_kind: another task, inputs, outputs or classes;
// RESOURCE_EXHAUSTED serve.too_large: it has no memory for a size that the baseline runs at.
absl::Status CheckSameKind(const ModelView& arm, const ModelView& baseline);

// NAME[/VERSION]:ATTENTION, as HTTP's `variant=`: "shapes:knn:k=9", "shapes/2:knn:k=9" where the
// plan names its version.
std::string ArmName(const Variant& variant, const ModelView& model);

}  // namespace fovea
