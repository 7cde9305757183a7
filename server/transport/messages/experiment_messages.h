// What fovea.v1's messages of live comparisons say, in core's types and back. Whoever frames them
// (gRPC, HTTP) has their bytes.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "proto/fovea/v1/experiment.pb.h"
#include "server/core/live_experiment.h"

namespace fovea {

// INVALID_ARGUMENT: a name that is too long. What is beyond a bound is LiveExperiments' to say.
absl::StatusOr<ExperimentPlan> ReadExperimentPlan(const v1::ExperimentPlan& message);

v1::Experiment ToMessage(const LiveExperiment& experiment);
v1::ListExperimentsResponse ToMessage(const std::vector<LiveExperiment>& experiments);

}  // namespace fovea
