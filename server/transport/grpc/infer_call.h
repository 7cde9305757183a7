// A unary call that carries images: ModelInfer, Classify, Detect and Segment.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "server/core/request.h"
#include "server/transport/grpc/infer_exchange.h"

namespace fovea {

struct InferMethod {
  ApiMethod api;
  absl::Status (*read)(const ReceivedBytes& message, CheckModel check_model,
                       InferenceRequest* request);
  WriteMessage write;
};
extern const InferMethod kModelInfer;
extern const InferMethod kClassify;
extern const InferMethod kDetect;
extern const InferMethod kSegment;

// Starts a call; returns quickly. `message` and `response` belong to gRPC and live as long as the
// call.
grpc::ServerUnaryReactor* StartInferCall(GrpcContext& context, const InferMethod& method,
                                         grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* message,
                                         grpc::ByteBuffer* response);

}  // namespace fovea
