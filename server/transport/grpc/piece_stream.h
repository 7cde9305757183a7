// Scattered bytes as protobuf reads them.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <span>

#include "server/core/byte_cursor.h"

namespace fovea {

// Not thread-safe. The pieces outlive it; each is shorter than 2 GiB.
class PieceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit PieceStream(std::span<const ByteCursor::Piece> pieces) : pieces_(pieces) {}

  bool Next(const void** data, int* size) override {
    while (piece_ < pieces_.size() && offset_ == pieces_[piece_].size()) {
      ++piece_;
      offset_ = 0;
    }
    if (piece_ == pieces_.size()) return false;
    const ByteCursor::Piece rest = pieces_[piece_].subspan(offset_);
    *data = rest.data();
    *size = static_cast<int>(rest.size());
    offset_ += rest.size();
    read_ += *size;
    return true;
  }
  // After a Next, of at most its size.
  void BackUp(int count) override {
    offset_ -= count;
    read_ -= count;
  }
  bool Skip(int count) override {
    const void* data;
    int size;
    while (count > 0 && Next(&data, &size)) {
      if (size > count) {
        BackUp(size - count);
        return true;
      }
      count -= size;
    }
    return count == 0;
  }
  int64_t ByteCount() const override { return read_; }

 private:
  std::span<const ByteCursor::Piece> pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
  int64_t read_ = 0;
};

// False where the bytes are no such message.
inline bool ParsePieces(std::span<const ByteCursor::Piece> pieces,
                        google::protobuf::MessageLite* message) {
  PieceStream stream(pieces);
  return message->ParseFromZeroCopyStream(&stream);
}

}  // namespace fovea
