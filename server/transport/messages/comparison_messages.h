// What fovea.v1's comparison messages say, in core's types and back. Whoever frames them (gRPC,
// HTTP) has their bytes.
#pragma once

#include <string_view>
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

// The variants are taken out of `message`; those of a sweep, too. As above.
absl::StatusOr<std::vector<Variant>> TakeVariants(
    google::protobuf::RepeatedPtrField<v1::Variant>* message, std::string_view reason);

// The parts of what is measured.
void Fill(const Quartiles& quartiles, v1::Quartiles* message);
void Fill(const Estimate& estimate, v1::Estimate* message);

void FillProgress(const ComparisonProgress& progress, v1::ComparisonProgress* message);
void FillComparison(const Comparison& comparison, v1::Comparison* message);
void FillServed(const std::vector<ServedVariant>& variants, v1::ServedVariants* message);

}  // namespace fovea
