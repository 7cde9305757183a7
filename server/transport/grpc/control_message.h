// Messages without tensors, between gRPC's bytes and protobuf: those of every method but inference.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/request_memory.h"
#include "server/transport/grpc/grpc_message.h"
#include "server/transport/grpc/piece_stream.h"
#include "server/transport/grpc/wire_reader.h"

namespace fovea {

// Fills `message` with what it knows of the bytes. False where they are none.
template <typename Message>
bool ParseControlMessage(const ReceivedBytes& bytes, Message* message) {
  Message parsed;
  if (!ParsePieces(bytes.pieces, &parsed)) return false;
  parsed.DiscardUnknownFields();
  // A copy: where the unknown was, protobuf keeps room for as much, and counts it nowhere.
  *message = parsed;
  return true;
}

// A message of at most limits::kMaxControlMessageBytes. INVALID_ARGUMENT where the bytes are no
// Message, RESOURCE_EXHAUSTED where they are more.
template <typename Message>
absl::Status ReadControlMessage(const grpc::ByteBuffer& buffer, Message* message) {
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes,
                         ReceiveMessage(buffer, limits::kMaxControlMessageBytes));
  return ParseControlMessage(bytes, message) ? absl::OkStatus() : MalformedMessage();
}

// An answer, or a stream's.
template <typename Message>
grpc::ByteBuffer WriteControlMessage(const Message& message) {
  EncodedMessage encoded;
  encoded.Append(message.SerializeAsString());
  return ToByteBuffer(std::move(encoded));
}

}  // namespace fovea
