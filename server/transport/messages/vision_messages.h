// What fovea.v1's vision messages say, in core's types and back: a request beside its images, and
// the answers. Whoever frames them (gRPC, HTTP) has their bytes.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/core/request.h"

namespace fovea {

// What a request says beside its images, of which it has so many, into `request`: an id only where
// it names one. INVALID_ARGUMENT: no image or more than limits::kMaxBatchSize, an option that makes
// no sense, an id too long; and what `check_model` and RequestMemory::Take say.
absl::Status ReadRequest(const v1::ClassifyRequest& message, size_t images, CheckModel check_model,
                         InferenceRequest* request);
absl::Status ReadRequest(const v1::DetectRequest& message, size_t images, CheckModel check_model,
                         InferenceRequest* request);
absl::Status ReadRequest(const v1::SegmentRequest& message, size_t images, CheckModel check_model,
                         InferenceRequest* request);

// Everything but the receipt. `response` has the results of the message's task; what is large in
// them is taken.
void FillAnswer(InferenceResponse& response, v1::ClassifyResponse* answer);
void FillAnswer(InferenceResponse& response, v1::DetectResponse* answer);
void FillAnswer(InferenceResponse& response, v1::SegmentResponse* answer);

void FillReceipt(const Receipt& receipt, v1::Receipt* message);

}  // namespace fovea
