// The one place where a status of Fovea's becomes one of gRPC's.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace fovea {

// Trailing metadata of a failed call: the reason token, for example "image.truncated".
inline constexpr char kReasonMetadata[] = "fovea-reason";

// Code and message are the status's; codes that the policy of docs/faults.md does not know are
// INTERNAL.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The name of the code that the status has there, for example "INVALID_ARGUMENT".
std::string CodeName(const absl::Status& status);

// As ToGrpcStatus, and adds the reason to the call's trailing metadata. Before the call's Finish,
// once.
grpc::Status EndCall(const absl::Status& status, grpc::CallbackServerContext& context);

}  // namespace fovea
