// What fovea.v1's messages say of variants, which are asked for in several calls and served by one,
// in core's types and back.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/fovea/v1/comparison.pb.h"
#include "server/core/variant.h"
#include "server/core/variant_serving.h"

namespace fovea {

// INVALID_ARGUMENT `reason`: a name, a version or an attention that is too long.
absl::StatusOr<Variant> ReadVariant(const v1::Variant& message, std::string_view reason);
absl::StatusOr<std::vector<Variant>> ReadVariants(
    const google::protobuf::RepeatedPtrField<v1::Variant>& messages, std::string_view reason);

absl::StatusOr<ServeRequest> ReadServeRequest(const v1::ServeRequest& message);
void FillServed(const std::vector<ServedVariant>& variants, v1::ServedVariants* message);

}  // namespace fovea
