// Who makes a call over gRPC.
#pragma once

#include <grpcpp/server_context.h>

#include "server/api/api_methods.h"
#include "server/api/caller.h"
#include "server/transport/grpc/infer_exchange.h"

namespace fovea {

// By the connection's certificate and the call's metadata `authorization`.
Caller CallerOf(const GrpcContext& context, ApiMethod method,
                const grpc::CallbackServerContext& call);

}  // namespace fovea
