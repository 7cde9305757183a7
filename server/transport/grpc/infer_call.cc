#include "server/transport/grpc/infer_call.h"

#include <utility>

#include "base/status.h"
#include "server/transport/grpc/grpc_message.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/grpc_trace.h"
#include "server/transport/grpc/vision_codec.h"

namespace fovea {
namespace {

// Deletes itself when gRPC is done with the call: after Finish and after any OnCancel.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  InferCall(GrpcContext& context, const InferMethod& method, grpc::CallbackServerContext* call,
            grpc::ByteBuffer* response)
      : method_(method),
        call_(call),
        response_(response),
        exchange_(context, method.api, *call, {.context = TraceContextOf(*call), .local = {}}) {}

  void Start(const grpc::ByteBuffer& message) {
    whole_ = message.Valid();
    exchange_.Run(message, method_.read, method_.write,
                  [this](InferAnswer answer) { Answer(std::move(answer)); });
  }

 private:
  void Answer(InferAnswer answer) {
    if (answer.status.ok()) *response_ = ToByteBuffer(std::move(answer.message));
    exchange_.call().Answered();
    TellTrace(exchange_.call().traceparent(), *call_);
    // The caller is still there, but half-closed the call in the middle of its message.
    const absl::Status malformed =
        InvalidArgument("request.malformed", "the call ended before its message was complete");
    Finish(EndCall(whole_ ? answer.status : malformed, *call_));
  }

  void OnCancel() override { exchange_.call().Cancel(); }
  void OnDone() override { delete this; }

  const InferMethod& method_;
  grpc::CallbackServerContext* const call_;
  grpc::ByteBuffer* const response_;
  InferExchange exchange_;
  bool whole_ = true;  // the message
};

}  // namespace

const InferMethod kModelInfer{Method("ModelInfer"), ReadModelInferRequest, WriteModelInferResponse};
const InferMethod kClassify{Method("Classify"), ReadClassifyRequest, WriteClassifyResponse};
const InferMethod kDetect{Method("Detect"), ReadDetectRequest, WriteDetectResponse};
const InferMethod kSegment{Method("Segment"), ReadSegmentRequest, WriteSegmentResponse};

grpc::ServerUnaryReactor* StartInferCall(GrpcContext& context, const InferMethod& method,
                                         grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* message,
                                         grpc::ByteBuffer* response) {
  auto* reactor = new InferCall(context, method, call, response);
  reactor->Start(*message);
  // Decoded images and converted tensors need their bytes no more: only what is in use stays.
  ReleaseMessage(message);
  return reactor;
}

}  // namespace fovea
