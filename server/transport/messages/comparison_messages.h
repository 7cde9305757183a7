// What fovea.v1's messages of a comparison say, in core's types and back. Whoever frames them
// (gRPC, HTTP) has their bytes.
#pragma once

#include "absl/status/statusor.h"
#include "proto/fovea/v1/comparison.pb.h"
#include "server/core/comparison.h"

namespace fovea {

// The message's images are taken out of it. INVALID_ARGUMENT: a number below zero, an id or a name
// that is too long. What is beyond a bound is ComparisonRunner's to say.
absl::StatusOr<CompareRequest> ReadCompareRequest(v1::CompareRequest& message);

// The parts of what is measured.
void Fill(const Quartiles& quartiles, v1::Quartiles* message);
void Fill(const Estimate& estimate, v1::Estimate* message);

void Fill(const Provenance& provenance, v1::Provenance* message);
void FillProgress(const ComparisonProgress& progress, v1::ComparisonProgress* message);
void FillComparison(const Comparison& comparison, v1::Comparison* message);

}  // namespace fovea
