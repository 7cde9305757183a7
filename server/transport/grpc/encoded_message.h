// A protobuf message on its way out, in the order in which its parts go onto the wire.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

// Large fields are moved in and not copied again before the socket.
class EncodedMessage {
 public:
  // Encoded fields; their own tags are in them.
  void Append(std::string_view fields) { Tail().append(fields); }

  // A field of type bytes: `bytes`, and what follows them.
  void AppendBytes(int field, std::string bytes, std::vector<std::string> further = {}) {
    size_t size = bytes.size();
    for (const std::string& part : further) size += part.size();
    AppendTag(field, size);
    AppendPart(std::move(bytes));
    for (std::string& part : further) AppendPart(std::move(part));
  }

  // A field whose type is `message`'s.
  void AppendMessage(int field, EncodedMessage message) {
    AppendTag(field, message.size());
    for (std::string& chunk : message.chunks_) {
      chunks_.push_back(std::move(chunk));
    }
    tail_open_ = false;
  }

  size_t size() const {
    size_t size = 0;
    for (const std::string& chunk : chunks_) size += chunk.size();
    return size;
  }
  std::vector<std::string> TakeChunks() && { return std::move(chunks_); }

 private:
  // Below this, copying is cheaper than one more buffer on the way to the socket.
  static constexpr size_t kMovedBytes = 16 << 10;

  void AppendPart(std::string bytes) {
    if (bytes.size() < kMovedBytes) {
      Tail().append(bytes);
    } else {
      chunks_.push_back(std::move(bytes));
      tail_open_ = false;
    }
  }
  std::string& Tail() {
    if (!tail_open_) {
      chunks_.emplace_back();
      tail_open_ = true;
    }
    return chunks_.back();
  }
  void AppendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Tail().push_back(static_cast<char>(value | 0x80));
    Tail().push_back(static_cast<char>(value));
  }
  void AppendTag(int field, size_t length) {
    AppendVarint(static_cast<uint64_t>(field) << 3 | 2);
    AppendVarint(length);
  }

  std::vector<std::string> chunks_;
  bool tail_open_ = false;  // the last chunk may grow
};

}  // namespace fovea
