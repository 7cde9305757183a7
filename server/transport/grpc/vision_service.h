// fovea.v1.VisionService over gRPC's callback API.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "proto/fovea/v1/vision.grpc.pb.h"
#include "server/transport/grpc/infer_call.h"

namespace fovea {

// Raw, as OipService is.
using RawVisionService = v1::VisionService::WithRawCallbackMethod_Classify<
    v1::VisionService::WithRawCallbackMethod_Detect<
        v1::VisionService::WithRawCallbackMethod_Segment<v1::VisionService::Service>>>;

class VisionService final : public RawVisionService {
 public:
  explicit VisionService(GrpcContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Classify(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* message,
                                     grpc::ByteBuffer* answer) override {
    return StartInferCall(context_, kClassify, call, message, answer);
  }
  grpc::ServerUnaryReactor* Detect(grpc::CallbackServerContext* call,
                                   const grpc::ByteBuffer* message,
                                   grpc::ByteBuffer* answer) override {
    return StartInferCall(context_, kDetect, call, message, answer);
  }
  grpc::ServerUnaryReactor* Segment(grpc::CallbackServerContext* call,
                                    const grpc::ByteBuffer* message,
                                    grpc::ByteBuffer* answer) override {
    return StartInferCall(context_, kSegment, call, message, answer);
  }

 private:
  GrpcContext& context_;
};

}  // namespace fovea
