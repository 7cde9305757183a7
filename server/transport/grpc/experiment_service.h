// fovea.v1.ExperimentService over gRPC's callback API.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "proto/fovea/v1/experiment.grpc.pb.h"
#include "server/transport/grpc/infer_exchange.h"

namespace fovea {

// Raw, as OipService is.
using RawExperimentService = v1::ExperimentService::WithRawCallbackMethod_StartExperiment<
    v1::ExperimentService::WithRawCallbackMethod_GetExperiment<
        v1::ExperimentService::WithRawCallbackMethod_ListExperiments<
            v1::ExperimentService::WithRawCallbackMethod_StopExperiment<
                v1::ExperimentService::WithRawCallbackMethod_DeleteExperiment<
                    v1::ExperimentService::Service>>>>>;

class ExperimentService final : public RawExperimentService {
 public:
  explicit ExperimentService(GrpcContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* StartExperiment(grpc::CallbackServerContext* call,
                                            const grpc::ByteBuffer* message,
                                            grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* GetExperiment(grpc::CallbackServerContext* call,
                                          const grpc::ByteBuffer* message,
                                          grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* ListExperiments(grpc::CallbackServerContext* call,
                                            const grpc::ByteBuffer* message,
                                            grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* StopExperiment(grpc::CallbackServerContext* call,
                                           const grpc::ByteBuffer* message,
                                           grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* DeleteExperiment(grpc::CallbackServerContext* call,
                                             const grpc::ByteBuffer* message,
                                             grpc::ByteBuffer* answer) override;

 private:
  GrpcContext& context_;
};

}  // namespace fovea
