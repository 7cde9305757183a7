// Unary calls without tensors, answered.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/api/api_methods.h"
#include "server/api/caller.h"
#include "server/api/deferred_calls.h"
#include "server/core/cancellation.h"
#include "server/core/request_memory.h"
#include "server/transport/grpc/control_message.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_status.h"

namespace fovea {

// A call, and what it holds until its answer has left. Deletes itself when gRPC is done.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(GrpcContext& context, ApiMethod method, grpc::CallbackServerContext* call,
            grpc::ByteBuffer* answer)
      : clock_(context.api.clock()),
        caller_(CallerOf(context, method, *call)),
        memory_(std::make_shared<RequestMemory>(context.api.memory())),
        call_(call),
        answer_(answer) {}

  // Whether its caller may call: Caller::Admit's errors. Before anything else of it is done.
  absl::Status Admit() { return caller_.Admit(clock_.Now()); }

  const Caller& caller() const { return caller_; }
  // What the request holds until its answer.
  const std::shared_ptr<RequestMemory>& memory() { return memory_; }
  // Its caller went away. To be asked before the answer.
  bool cancelled() const { return call_->IsCancelled(); }
  // Set then.
  const CancellationPtr& cancellation() const { return cancellation_; }

  void Fail(const absl::Status& status) {
    memory_->Release();
    Finish(EndCall(status, *call_));
  }

  // Ends the call with `status`, or where that is OK with `response`, or where there is no memory
  // for it with RequestMemory::Take's error.
  template <typename Response>
  void Answer(absl::Status status, const Response& response) {
    memory_->Release();
    const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
    if (status.ok() && bytes > limits::kUncountedAnswerBytes) status = memory_->Take(bytes);
    if (status.ok()) {
      status = OrOutOfMemory([&] {
        *answer_ = WriteControlMessage(response);
        return absl::OkStatus();
      });
    }
    Finish(EndCall(status, *call_));
  }

  // Ends the call with what `respond` makes, which may be as long as a caller can bring about.
  template <typename Respond>
  void AnswerWith(Respond respond) {
    decltype(respond()) response;
    absl::Status status = OrOutOfMemory([&] {
      response = respond();
      return absl::OkStatus();
    });
    Answer(std::move(status), response);
  }

 private:
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override { delete this; }

  Clock& clock_;
  Caller caller_;
  const std::shared_ptr<RequestMemory> memory_;
  const CancellationPtr cancellation_ = std::make_shared<Cancellation>();
  grpc::CallbackServerContext* const call_;
  grpc::ByteBuffer* const answer_;
};

// Answers a call at once with what `handle(const Request&, Response*)`, or the same with a const
// Caller& behind, returns, an absl::Status, or with ReadControlMessage's error, or with why its
// caller may not call.
template <typename Request, typename Response, typename Handle>
grpc::ServerUnaryReactor* AnswerAtOnce(GrpcContext& context, ApiMethod method,
                                       grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* message, grpc::ByteBuffer* answer,
                                       Handle handle) {
  auto* reactor = new UnaryCall(context, method, call, answer);
  Request request;
  Response response;
  absl::Status status = reactor->Admit();
  if (status.ok()) status = ReadControlMessage(*message, &request);
  ReleaseMessage(message);  // its answer may wait long for a caller that does not read
  if (status.ok()) {
    if constexpr (std::is_invocable_v<Handle, const Request&, Response*, const Caller&>) {
      status = handle(request, &response, reactor->caller());
    } else {
      status = handle(request, &response);
    }
  }
  reactor->Answer(std::move(status), response);
  return reactor;
}

// Answers a call when the api has the answer, an absl::Status or an absl::StatusOr:
// `receive(message, memory)`, a shared RequestMemory, makes the api's call of the message, an
// absl::StatusOr,
// `start(call, WaitingCaller<Answer>)` asks it, `respond` makes the response of a value, or of
// nothing where `Answer` is a status.
template <typename Answer, typename Receive, typename Start, typename Respond>
grpc::ServerUnaryReactor* AnswerReceived(GrpcContext& context, ApiMethod method,
                                         grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* message, grpc::ByteBuffer* answer,
                                         Receive receive, Start start, Respond respond) {
  auto* reactor = new UnaryCall(context, method, call, answer);
  using Asked =
      std::invoke_result_t<Receive, const grpc::ByteBuffer&, const std::shared_ptr<RequestMemory>&>;
  std::optional<typename Asked::value_type> asked;
  const absl::Status readable = OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(reactor->Admit());
    FOVEA_ASSIGN_OR_RETURN(asked, receive(*message, reactor->memory()));
    return absl::OkStatus();
  });
  ReleaseMessage(message);
  if (!readable.ok()) {
    reactor->Fail(readable);
    return reactor;
  }
  start(*std::move(asked),
        WaitingCaller<Answer>{.gone = [reactor] { return reactor->cancelled(); },
                              .done =
                                  [reactor, respond](Answer value) {
                                    if constexpr (std::is_same_v<Answer, absl::Status>) {
                                      reactor->Answer(std::move(value), respond());
                                    } else if (value.ok()) {
                                      reactor->AnswerWith([&] { return respond(*value); });
                                    } else {
                                      reactor->Fail(value.status());
                                    }
                                  }});
  return reactor;
}

// The same of a short message: `read(const Request&)` makes the api's call of it.
template <typename Request, typename Answer, typename Read, typename Start, typename Respond>
grpc::ServerUnaryReactor* AnswerLater(GrpcContext& context, ApiMethod method,
                                      grpc::CallbackServerContext* call,
                                      const grpc::ByteBuffer* message, grpc::ByteBuffer* answer,
                                      Read read, Start start, Respond respond) {
  using Asked = std::invoke_result_t<Read, const Request&>;
  return AnswerReceived<Answer>(
      context, method, call, message, answer,
      [read](const grpc::ByteBuffer& buffer,
             const std::shared_ptr<RequestMemory>&) -> absl::StatusOr<Asked> {
        Request request;
        FOVEA_RETURN_IF_ERROR(ReadControlMessage(buffer, &request));
        return read(request);
      },
      start, respond);
}

}  // namespace fovea
