#include "server/transport/grpc/grpc_message.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>
#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"

namespace fovea {
namespace {

using Piece = ScatteredBytes::Piece;

struct Slices {
  std::vector<grpc::Slice> slices;
  std::vector<Piece> pieces;
};

struct Blocks {
  std::vector<std::string> blocks;
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

// zlib's stream, ended however the function returns.
struct Inflater {
  Inflater() { ready = inflateInit2(&stream, MAX_WBITS + kGzipOrZlib) == Z_OK; }
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
  static constexpr int kGzipOrZlib = 32;  // by its header
  z_stream stream{};
  bool ready = false;
};

// gRPC's "gzip" is a gzip file, its "deflate" a zlib stream.
absl::StatusOr<ReceivedBytes> Decompress(const ReceivedBytes& packed, int64_t max_bytes,
                                         RequestMemory* memory) {
  constexpr size_t kBlockBytes = 64 << 10;
  Inflater inflater;
  if (!inflater.ready) return OutOfMemory();
  z_stream& stream = inflater.stream;
  auto unpacked = std::make_shared<Blocks>();
  const auto too_large = [max_bytes] {
    return ResourceExhausted(
        "request.decompressed_too_large",
        absl::StrCat("the message unpacks to more than ", max_bytes, " bytes"));
  };
  int64_t total = 0;
  int result = Z_OK;
  for (const Piece piece : packed.pieces) {
    // zlib's interface is older than const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    while (result == Z_OK && (stream.avail_in > 0 || stream.avail_out == 0)) {
      if (stream.avail_out == 0) {
        if (total > max_bytes) return too_large();
        if (memory != nullptr) FOVEA_RETURN_IF_ERROR(memory->Take(kBlockBytes));
        std::string& block = unpacked->blocks.emplace_back(kBlockBytes, '\0');
        total += kBlockBytes;
        stream.next_out = reinterpret_cast<Bytef*>(block.data());
        stream.avail_out = static_cast<uInt>(block.size());
      }
      result = inflate(&stream, Z_NO_FLUSH);
      if (result == Z_MEM_ERROR) return OutOfMemory();
    }
    // What follows the end of the stream is no part of it.
    if (result == Z_STREAM_END && stream.avail_in > 0) result = Z_DATA_ERROR;
    if (result == Z_BUF_ERROR) result = Z_OK;  // no more input in this piece
  }
  if (result != Z_STREAM_END) {
    return InvalidArgument("request.bad_compression", "the compressed message does not unpack");
  }
  std::string& last = unpacked->blocks.back();
  last.resize(last.size() - stream.avail_out);
  if (total - stream.avail_out > max_bytes) return too_large();
  for (const std::string& block : unpacked->blocks) {
    unpacked->pieces.push_back(std::as_bytes(std::span(block)));
  }
  return ReceivedBytes{unpacked->pieces, unpacked};
}

}  // namespace

absl::StatusOr<ReceivedBytes> ReceiveMessage(const grpc::ByteBuffer& buffer, int64_t max_bytes,
                                             RequestMemory* memory) {
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
  return Decompress(received, std::min(max_bytes, limits::kMaxDecompressedMessageBytes), memory);
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
