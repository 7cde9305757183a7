// Explanations, from protobuf's messages to the client's plain types and back. Internal to the
// library.
#pragma once

#include "absl/status/statusor.h"
#include "client/cpp/explanation.h"
#include "proto/fovea/v1/comparison.pb.h"

namespace fovea::client {

fovea::v1::ExplainRequest ToWire(const ExplainRequest& request);
// Its pictures are moved. INTERNAL: a map has another number of values than places, or a method
// that this library does not know.
absl::StatusOr<Explanation> FromWire(fovea::v1::Explanation message);

}  // namespace fovea::client
