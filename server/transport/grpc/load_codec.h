// A load's request, which may bring files. It knows protobuf's messages and nothing of gRPC.
#pragma once

#include "absl/status/statusor.h"
#include "server/api/server_api.h"
#include "server/core/request_memory.h"
#include "server/transport/messages/received_bytes.h"

namespace fovea {

// Of an encoded inference.RepositoryModelLoadRequest. Each file is copied once; they count in
// `memory` from then on, as LoadCall says, and what else is read while it is. INVALID_ARGUMENT:
// malformed bytes, or more than limits::kMaxParametersPerRequest parameters; RESOURCE_EXHAUSTED
// request.too_large: the rest is more than limits::kMaxLoadTextBytes, or the files more than
// limits::kMaxSentFileBytes; RequestMemory::Take's errors.
absl::StatusOr<LoadCall> ReadLoadRequest(const ReceivedBytes& message, RequestMemory& memory);

}  // namespace fovea
