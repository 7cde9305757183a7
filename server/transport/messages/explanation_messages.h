// What fovea.v1's messages about explanations say, in core's types and back. Whoever frames them
// (gRPC, HTTP) has their bytes.
#pragma once

#include "absl/status/statusor.h"
#include "proto/fovea/v1/comparison.pb.h"
#include "server/core/explanation.h"

namespace fovea {

// The message's image is taken out of it. INVALID_ARGUMENT: a method or a form that there is not,
// half a place, an id or a name that is too long. What is beyond a bound is ExplanationRunner's to
// say.
absl::StatusOr<ExplainRequest> ReadExplainRequest(v1::ExplainRequest& message);

// Its pictures are moved.
v1::Explanation ToMessage(Explanation explanation);

}  // namespace fovea
