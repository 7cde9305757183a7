// fovea.v1.ComparisonService over gRPC's callback API.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "proto/fovea/v1/comparison.grpc.pb.h"
#include "server/transport/grpc/infer_exchange.h"

namespace fovea {

// Raw, as OipService is.
using RawComparisonService = v1::ComparisonService::WithRawCallbackMethod_Compare<
    v1::ComparisonService::WithRawCallbackMethod_Sweep<
        v1::ComparisonService::WithRawCallbackMethod_Explain<
            v1::ComparisonService::WithRawCallbackMethod_Serve<v1::ComparisonService::Service>>>>;

class ComparisonService final : public RawComparisonService {
 public:
  explicit ComparisonService(GrpcContext& context) : context_(context) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Compare(grpc::CallbackServerContext* call,
                                                      const grpc::ByteBuffer* message) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Sweep(grpc::CallbackServerContext* call,
                                                    const grpc::ByteBuffer* message) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* message,
                                    grpc::ByteBuffer* answer) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Serve(grpc::CallbackServerContext* call,
                                                    const grpc::ByteBuffer* message) override;

 private:
  GrpcContext& context_;
};

}  // namespace fovea
