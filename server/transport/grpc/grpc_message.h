// Messages as gRPC hands them over and takes them.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/core/request_memory.h"
#include "server/transport/grpc/encoded_message.h"
#include "server/transport/grpc/oip_codec.h"

namespace fovea {

// The bytes of a received message, sharing its buffers. A compressed one (gzip or deflate) is
// unpacked here and not by gRPC, which in release 1.51 unpacks whatever a few bytes swell to before
// it looks at any limit. RESOURCE_EXHAUSTED: longer than `max_bytes`, in more pieces than
// limits::kMaxSmallPieces allows, or unpacks to more than limits::kMaxDecompressedMessageBytes;
// INVALID_ARGUMENT: does not unpack, or has not come as a whole; and what RequestMemory::Take says,
// where there is `memory` to be counted in.
absl::StatusOr<ReceivedBytes> ReceiveMessage(const grpc::ByteBuffer& buffer, int64_t max_bytes,
                                             RequestMemory* memory = nullptr);

// Lets go of a received message that gRPC would keep until its call has ended. Bytes that
// ReceiveMessage gave out stay for as long as their owner.
void ReleaseMessage(const grpc::ByteBuffer* message);

// Large parts are handed to gRPC without a copy.
grpc::ByteBuffer ToByteBuffer(EncodedMessage message);

}  // namespace fovea
