// What fovea.v1's vision messages say, in core's types and back: the options of a request, and the
// answers. Whoever frames them (gRPC, HTTP) has their bytes.
#pragma once

#include "absl/status/statusor.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/core/request.h"

namespace fovea {

// INVALID_ARGUMENT: an option that makes no sense.
absl::StatusOr<RequestOptions> ReadOptions(const v1::ClassifyRequest& request);
absl::StatusOr<RequestOptions> ReadOptions(const v1::DetectRequest& request);
absl::StatusOr<RequestOptions> ReadOptions(const v1::SegmentRequest& request);

// Everything but the receipt. `response` has the results of the message's task; what is large in
// them is taken.
void FillAnswer(InferenceResponse& response, v1::ClassifyResponse* answer);
void FillAnswer(InferenceResponse& response, v1::DetectResponse* answer);
void FillAnswer(InferenceResponse& response, v1::SegmentResponse* answer);

void FillReceipt(const Receipt& receipt, v1::Receipt* message);

}  // namespace fovea
