// fovea.v1.VisionService over gRPC's callback API.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include "proto/fovea/v1/vision.grpc.pb.h"
#include "server/transport/grpc/infer_call.h"
#include "server/transport/grpc/infer_stream.h"

namespace fovea {

// Raw, as OipService is.
using RawVisionService = v1::VisionService::WithRawCallbackMethod_Classify<
    v1::VisionService::WithRawCallbackMethod_Detect<
        v1::VisionService::WithRawCallbackMethod_Segment<
            v1::VisionService::WithRawCallbackMethod_StreamImages<v1::VisionService::Service>>>>;

class VisionService final : public RawVisionService {
 public:
  VisionService(GrpcContext& context, InferStreams& streams)
      : context_(context), streams_(streams) {}

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
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StreamImages(
      grpc::CallbackServerContext* call) override {
    return streams_.Start(context_, kStreamImages, call);
  }

 private:
  GrpcContext& context_;
  InferStreams& streams_;
};

}  // namespace fovea
