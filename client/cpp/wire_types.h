// From protobuf's messages to the client's plain types and back. Internal to the library.
#pragma once

#include "client/cpp/types.h"
#include "proto/fovea/v1/vision.pb.h"
#include "proto/inference/inference.pb.h"

namespace fovea::client {

fovea::v1::ClassifyRequest ToWire(const ClassifyRequest& request);
ClassifyResponse FromWire(fovea::v1::ClassifyResponse&& response);
fovea::v1::DetectRequest ToWire(const DetectRequest& request);
// INTERNAL: a class, a score, a box or a size that cannot be.
absl::StatusOr<DetectResponse> FromWire(fovea::v1::DetectResponse&& response);
fovea::v1::SegmentRequest ToWire(const SegmentRequest& request);
// INTERNAL: what the response says cannot be.
absl::StatusOr<SegmentResponse> FromWire(fovea::v1::SegmentResponse&& response);

inference::ModelInferRequest ToWire(const InferRequest& request);
// INVALID_ARGUMENT: outputs that are not raw, or not as many as the response names.
absl::StatusOr<InferResponse> FromWire(inference::ModelInferResponse&& response);

// Adds to `model` what the metadata says.
void AddMetadata(const inference::ModelMetadataResponse& metadata, ModelInfo& model);

ModelStatistics FromWire(const inference::ModelStatistics& statistics);

}  // namespace fovea::client
