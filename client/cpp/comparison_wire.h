// Comparisons, from protobuf's messages to the client's plain types and back. Internal to the
// library.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/comparison.h"
#include "client/cpp/measuring_progress.h"
#include "client/cpp/variant.h"
#include "proto/fovea/v1/comparison.pb.h"

namespace fovea::client {

fovea::v1::CompareRequest ToWire(const CompareRequest& request);
MeasuringProgress FromWire(const fovea::v1::ComparisonProgress& progress);
// INTERNAL: there is no variant.
absl::StatusOr<Comparison> FromWire(const fovea::v1::Comparison& comparison);

// Sweeps have these, too.
void AddToWire(const std::vector<Variant>& variants,
               google::protobuf::RepeatedPtrField<fovea::v1::Variant>* messages);
uint64_t MicrosecondsToWire(absl::Duration duration);  // 0: none; else at least 1
Quartiles QuartilesFromWire(const fovea::v1::Quartiles& quartiles);
Estimate EstimateFromWire(const fovea::v1::Estimate& estimate);
Provenance ProvenanceFromWire(const fovea::v1::Provenance& provenance);

}  // namespace fovea::client
