#include "server/transport/messages/inflate.h"

#include <zlib.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/status.h"

namespace fovea {
namespace {

using Piece = ScatteredBytes::Piece;

struct Blocks {
  std::vector<std::string> blocks;
  std::vector<Piece> pieces;
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

}  // namespace

absl::StatusOr<ReceivedBytes> Inflate(const ReceivedBytes& packed, int64_t max_bytes,
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

}  // namespace fovea
