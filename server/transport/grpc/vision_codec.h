// VisionService's messages <-> Fovea's. It knows protobuf's messages and nothing of gRPC.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/clock.h"
#include "server/core/request.h"
#include "server/transport/grpc/encoded_message.h"
#include "server/transport/grpc/oip_codec.h"

namespace fovea {

// Reads an encoded fovea.v1.ClassifyRequest into `request`, whose deadline is the call's and whose
// stages have started. The images share the received bytes.
// INVALID_ARGUMENT: malformed bytes, no image or more than limits::kMaxBatchSize, an option that
// makes no sense, an id too long; and what `check_model` and RequestMemory::Take say.
absl::Status ReadClassifyRequest(const ReceivedBytes& message, CheckModel check_model,
                                 InferenceRequest* request);
// The same for a fovea.v1.DetectRequest, and a fovea.v1.SegmentRequest.
absl::Status ReadDetectRequest(const ReceivedBytes& message, CheckModel check_model,
                               InferenceRequest* request);
absl::Status ReadSegmentRequest(const ReceivedBytes& message, CheckModel check_model,
                                InferenceRequest* request);

// An encoded fovea.v1.ClassifyResponse. Ends the encode stage of `response`'s receipt. What
// CheckAnswerBytes says of the answer without its receipt.
absl::StatusOr<EncodedMessage> WriteClassifyResponse(InferenceResponse& response,
                                                     const Clock& clock,
                                                     size_t max_bytes = limits::kMaxAnswerBytes);
// The same as a fovea.v1.DetectResponse, and a fovea.v1.SegmentResponse.
absl::StatusOr<EncodedMessage> WriteDetectResponse(InferenceResponse& response, const Clock& clock,
                                                   size_t max_bytes = limits::kMaxAnswerBytes);
absl::StatusOr<EncodedMessage> WriteSegmentResponse(InferenceResponse& response, const Clock& clock,
                                                    size_t max_bytes = limits::kMaxAnswerBytes);

}  // namespace fovea
