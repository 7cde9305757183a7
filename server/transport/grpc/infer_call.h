// A unary call that carries images: ModelInfer and Classify.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "server/transport/grpc/infer_exchange.h"

namespace fovea {

// Starts a call; returns quickly. `message` and `response` belong to gRPC and live as long as the
// call.
grpc::ServerUnaryReactor* StartInferCall(GrpcContext& context, const InferMethod& method,
                                         grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* message,
                                         grpc::ByteBuffer* response);

}  // namespace fovea
