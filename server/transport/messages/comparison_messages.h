// What fovea.v1's comparison messages say, in core's types and back. Whoever frames them (gRPC,
// HTTP) has their bytes.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "proto/fovea/v1/comparison.pb.h"
#include "server/core/comparison.h"
#include "server/core/variant_serving.h"

namespace fovea {

// The message's images are taken out of it. INVALID_ARGUMENT: a number below zero, an id or a name
// that is too long. What is beyond a bound is ComparisonRunner's to say.
absl::StatusOr<CompareRequest> ReadCompareRequest(v1::CompareRequest& message);
// INVALID_ARGUMENT: a name or an attention that is too long.
absl::StatusOr<ServeRequest> ReadServeRequest(v1::ServeRequest& message);

void FillProgress(const ComparisonProgress& progress, v1::ComparisonProgress* message);
void FillComparison(const Comparison& comparison, v1::Comparison* message);
void FillServed(const std::vector<ServedVariant>& variants, v1::ServedVariants* message);

}  // namespace fovea
