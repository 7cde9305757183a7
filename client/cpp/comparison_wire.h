// Comparisons, from protobuf's messages to the client's plain types and back. Internal to the
// library.
#pragma once

#include "absl/status/statusor.h"
#include "client/cpp/comparison.h"
#include "proto/fovea/v1/comparison.pb.h"

namespace fovea::client {

fovea::v1::CompareRequest ToWire(const CompareRequest& request);
CompareProgress FromWire(const fovea::v1::ComparisonProgress& progress);
// INTERNAL: there is no variant.
absl::StatusOr<Comparison> FromWire(const fovea::v1::Comparison& comparison);

}  // namespace fovea::client
