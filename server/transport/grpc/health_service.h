// gRPC's health checking protocol (server/api/health_board has the names).
//
// The library brings a service of its own, but that one reads SERVING from the moment the port is
// open until somebody says otherwise, cannot end the streams of Watch when the server stops, and
// keeps a name of any length for as long as it is watched.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "base/limits.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "server/api/server_api.h"
#include "server/transport/grpc/infer_exchange.h"
#include "server/transport/grpc/stream_places.h"

namespace fovea {

namespace health_service_internal {

using Generated = grpc::health::v1::Health;
using RawService = Generated::WithRawCallbackMethod_Check<Generated::WithRawCallbackMethod_List<
    Generated::WithRawCallbackMethod_Watch<Generated::Service>>>;

}  // namespace health_service_internal

// Raw, as OipService is: a question is bounded before it is parsed
// (limits::kMaxControlMessageBytes).
class HealthService final : public health_service_internal::RawService {
 public:
  explicit HealthService(GrpcContext& context) : context_(context), board_(context.api.health()) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* call,
                                  const grpc::ByteBuffer* message,
                                  grpc::ByteBuffer* answer) override;
  // Names models only to callers that may read their metadata.
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* call, const grpc::ByteBuffer* message,
                                 grpc::ByteBuffer* answer) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* call,
                                                    const grpc::ByteBuffer* message) override;

 private:
  GrpcContext& context_;
  HealthBoard& board_;
  StreamPlaces watches_{limits::kMaxHealthWatches, limits::kMaxHealthWatchesPerConnection};
};

}  // namespace fovea
