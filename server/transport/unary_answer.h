// Unary calls without tensors: received, parsed, answered.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/core/limits.h"
#include "server/core/request_memory.h"
#include "server/core/status.h"
#include "server/transport/grpc_message.h"
#include "server/transport/grpc_status.h"
#include "server/transport/piece_stream.h"
#include "server/transport/wire_reader.h"

namespace fovea {

// INVALID_ARGUMENT where the bytes are no Message, RESOURCE_EXHAUSTED where they are more than
// `max_bytes`.
template <typename Message>
absl::Status ReadControlMessage(const grpc::ByteBuffer& buffer, Message* message,
                                int64_t max_bytes = limits::kMaxControlMessageBytes) {
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes, ReceiveMessage(buffer, max_bytes));
  return ParsePieces(bytes.pieces, message) ? absl::OkStatus() : MalformedMessage();
}

template <typename Message>
grpc::ByteBuffer WriteControlMessage(const Message& message) {
  EncodedMessage encoded;
  encoded.Append(message.SerializeAsString());
  return ToByteBuffer(std::move(encoded));
}

// A call, and what it holds until its answer has left. Deletes itself when gRPC is done.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(MemoryBudget& budget, grpc::CallbackServerContext* call, grpc::ByteBuffer* answer)
      : memory_(budget), call_(call), answer_(answer) {}

  // As RequestMemory's. Little is not counted: health is told when all memory is in use, too.
  absl::Status TakeMemory(int64_t bytes) {
    return bytes <= limits::kRequestRecordBytes ? absl::OkStatus() : memory_.Take(bytes);
  }

  void Fail(const absl::Status& status) { Finish(EndCall(status, *call_)); }

  // Ends the call with `status`, or where that is OK with `response`.
  template <typename Response>
  void Answer(absl::Status status, const Response& response) {
    memory_.Release();
    if (status.ok()) status = TakeMemory(static_cast<int64_t>(response.ByteSizeLong()));
    if (status.ok()) *answer_ = WriteControlMessage(response);
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
                                       Handle handle,
                                       int64_t max_bytes = limits::kMaxControlMessageBytes) {
  auto* reactor = new UnaryCall(budget, call, answer);
  Request request;
  Response response;
  absl::Status status = ReadControlMessage(*message, &request, max_bytes);
  if (status.ok()) status = handle(request, &response);
  reactor->Answer(std::move(status), response);
  return reactor;
}

}  // namespace fovea
