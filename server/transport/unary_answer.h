// Unary calls without tensors: received, parsed, answered.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <string>

#include "absl/status/status.h"
#include "server/core/limits.h"
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

// Answers a call at once with what `handle(const Request&, Response*)` returns, an absl::Status, or
// with ReadControlMessage's error.
template <typename Request, typename Response, typename Handle>
grpc::ServerUnaryReactor* AnswerAtOnce(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* message, grpc::ByteBuffer* answer,
                                       Handle handle,
                                       int64_t max_bytes = limits::kMaxControlMessageBytes) {
  Request request;
  Response response;
  absl::Status status = ReadControlMessage(*message, &request, max_bytes);
  if (status.ok()) status = handle(request, &response);
  if (status.ok()) *answer = WriteControlMessage(response);
  grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
  reactor->Finish(EndCall(status, *call));
  return reactor;
}

}  // namespace fovea
