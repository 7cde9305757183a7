// Sweeps, from protobuf's messages to the client's plain types and back. Internal to the library.
#pragma once

#include "absl/status/statusor.h"
#include "client/cpp/sweep.h"
#include "proto/fovea/v1/comparison.pb.h"

namespace fovea::client {

fovea::v1::SweepRequest ToWire(const SweepRequest& request);
// INTERNAL: an axis that this library does not know, or other numbers of values, places and points.
absl::StatusOr<Sweep> FromWire(const fovea::v1::Sweep& sweep);

}  // namespace fovea::client
