#include "server/transport/grpc/grpc_message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/transport/messages/inflate.h"

namespace fovea {
namespace {

using Piece = ScatteredBytes::Piece;

struct Slices {
  std::vector<grpc::Slice> slices;
  std::vector<Piece> pieces;
};

// How the message came: the public class does not tell, its C structure does.
class BufferProbe final : public grpc::ProtoBufferReader {
 public:
  using grpc::ProtoBufferReader::ProtoBufferReader;
  bool compressed() { return message().data.raw.compression != GRPC_COMPRESS_NONE; }
  size_t length() { return message().data.raw.slice_buffer.length; }
  size_t pieces() { return message().data.raw.slice_buffer.count; }

 private:
  const grpc_byte_buffer& message() { return *reader()->buffer_in; }
};

}  // namespace

absl::StatusOr<ReceivedBytes> ReceiveMessage(const grpc::ByteBuffer& buffer, int64_t max_bytes,
                                             RequestMemory* memory) {
  // gRPC calls a handler all the same where the caller has ended the call before its message came,
  // or in the middle of it.
  if (!buffer.Valid()) {
    return InvalidArgument("request.malformed", "the call ended before its message was complete");
  }
  // A copy shares the slices.
  grpc::ByteBuffer shared(buffer);
  BufferProbe probe(&shared);
  if (!probe.status().ok()) return Internal("request.no_buffer", "the message could not be read");
  if (probe.length() > static_cast<size_t>(max_bytes)) {
    return ResourceExhausted(
        "request.too_large",
        absl::StrCat("a message of ", probe.length(), " bytes; at most ", max_bytes, " are taken"));
  }
  if (probe.pieces() > limits::kMaxSmallPieces + probe.length() / limits::kKiB) {
    return ResourceExhausted("request.too_many_pieces",
                             absl::StrCat("a message of ", probe.length(), " bytes in ",
                                          probe.pieces(), " pieces: send it in larger frames"));
  }
  if (memory != nullptr) {
    // Where they lie is written down here, in a tensor or a list of files, and once more where
    // files are to be decoded.
    constexpr size_t kBytesAPiece = sizeof(grpc::Slice) + 3 * sizeof(Piece);
    FOVEA_RETURN_IF_ERROR(memory->Take(static_cast<int64_t>(probe.pieces() * kBytesAPiece)));
  }
  auto slices = std::make_shared<Slices>();
  if (!shared.Dump(&slices->slices).ok()) {
    return Internal("request.no_buffer", "the message could not be read");
  }
  slices->pieces.reserve(slices->slices.size());
  for (const grpc::Slice& slice : slices->slices) {
    slices->pieces.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  const ReceivedBytes received{slices->pieces, slices};
  if (!probe.compressed()) return received;
  return Inflate(received, std::min(max_bytes, limits::kMaxDecompressedMessageBytes), memory);
}

void ReleaseMessage(const grpc::ByteBuffer* message) {
  // gRPC made it for this call alone, and shows it as const because most handlers only read it.
  const_cast<grpc::ByteBuffer*>(message)->Clear();
}

grpc::ByteBuffer ToByteBuffer(EncodedMessage message) {
  constexpr size_t kCopiedBytes = 4 << 10;
  std::vector<grpc::Slice> slices;
  for (std::string& chunk : std::move(message).TakeChunks()) {
    if (chunk.size() <= kCopiedBytes) {
      slices.emplace_back(chunk);
    } else {
      auto* owner = new std::string(std::move(chunk));
      slices.emplace_back(
          owner->data(), owner->size(), [](void* text) { delete static_cast<std::string*>(text); },
          owner);
    }
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace fovea
