#include "server/transport/infer_call.h"

#include <utility>

#include "server/transport/grpc_message.h"
#include "server/transport/grpc_status.h"

namespace fovea {
namespace {

// Deletes itself when gRPC is done with the call: after Finish and after any OnCancel.
class InferCall final : public grpc::ServerUnaryReactor {
 public:
  InferCall(TransportContext& context, grpc::CallbackServerContext* call,
            grpc::ByteBuffer* response)
      : call_(call), response_(response), memory_(context.memory) {}

  void Start(TransportContext& context, const InferMethod& method,
             const grpc::ByteBuffer& message) {
    auto request = NewRequest(*call_, context.clock, memory_);
    cancellation_ = request->cancellation;
    pass_ = context.gate.TryEnter(cancellation_, context.clock.Now());
    Exchange(context, method, pass_, message, std::move(request),
             [this](InferAnswer answer) { Answer(std::move(answer)); });
  }

 private:
  void Answer(InferAnswer answer) {
    if (answer.status.ok()) *response_ = ToByteBuffer(std::move(answer.message));
    pass_.Answered();
    Finish(EndCall(answer.status, *call_));
  }

  // The caller went away, or its deadline passed. The answer, which still comes, goes nowhere.
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override { delete this; }

  grpc::CallbackServerContext* const call_;
  grpc::ByteBuffer* const response_;
  RequestMemory memory_;
  CancellationPtr cancellation_;
  RequestGate::Pass pass_;
};

}  // namespace

grpc::ServerUnaryReactor* StartInferCall(TransportContext& context, const InferMethod& method,
                                         grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* message,
                                         grpc::ByteBuffer* response) {
  auto* reactor = new InferCall(context, call, response);
  reactor->Start(context, method, *message);
  // Decoded images and converted tensors need their bytes no more: only what is in use stays.
  ReleaseMessage(message);
  return reactor;
}

}  // namespace fovea
