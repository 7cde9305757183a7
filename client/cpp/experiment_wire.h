// Live comparisons, from protobuf's messages to the client's plain types and back. Internal to the
// library.
#pragma once

#include "absl/status/statusor.h"
#include "client/cpp/experiment.h"
#include "proto/fovea/v1/experiment.pb.h"

namespace fovea::client {

fovea::v1::ExperimentPlan ToWire(const ExperimentPlan& plan);
// INTERNAL: there is no arm, or not one for each of the plan's.
absl::StatusOr<Experiment> FromWire(const fovea::v1::Experiment& experiment);

}  // namespace fovea::client
