// Unary calls without tensors, answered.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/request_memory.h"
#include "server/transport/control_message.h"
#include "server/transport/grpc_status.h"

namespace fovea {

// A call, and what it holds until its answer has left. Deletes itself when gRPC is done.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(MemoryBudget& budget, grpc::CallbackServerContext* call, grpc::ByteBuffer* answer)
      : memory_(budget), call_(call), answer_(answer) {}

  // What the request holds until its answer.
  RequestMemory& memory() { return memory_; }
  // Its caller went away. To be asked before the answer.
  bool cancelled() const { return call_->IsCancelled(); }

  void Fail(const absl::Status& status) {
    memory_.Release();
    Finish(EndCall(status, *call_));
  }

  // Ends the call with `status`, or where that is OK with `response`, or where there is no memory
  // for it with RequestMemory::Take's error.
  template <typename Response>
  void Answer(absl::Status status, const Response& response) {
    memory_.Release();
    const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
    if (status.ok() && bytes > limits::kUncountedAnswerBytes) status = memory_.Take(bytes);
    if (status.ok()) {
      status = OrOutOfMemory([&] {
        *answer_ = WriteControlMessage(response);
        return absl::OkStatus();
      });
    }
    Finish(EndCall(status, *call_));
  }

 private:
  void OnDone() override { delete this; }

  RequestMemory memory_;
  grpc::CallbackServerContext* const call_;
  grpc::ByteBuffer* const answer_;
};

// Answers a call at once with what `handle(const Request&, Response*)` returns, an absl::Status, or
// with ReadControlMessage's error.
template <typename Request, typename Response, typename Handle>
grpc::ServerUnaryReactor* AnswerAtOnce(MemoryBudget& budget, grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* message, grpc::ByteBuffer* answer,
                                       Handle handle) {
  auto* reactor = new UnaryCall(budget, call, answer);
  Request request;
  Response response;
  absl::Status status = ReadControlMessage(*message, &request);
  ReleaseMessage(message);  // its answer may wait long for a caller that does not read
  if (status.ok()) status = handle(request, &response);
  reactor->Answer(std::move(status), response);
  return reactor;
}

}  // namespace fovea
