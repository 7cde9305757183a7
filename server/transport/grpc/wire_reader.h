// Protobuf's wire format, read in place from scattered bytes. It lets a codec find the large fields
// of a message without copying them, and judge how many there are before anything is allocated for
// them: protobuf's own parser makes an object of some hundred bytes out of two bytes on the wire.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/core/byte_cursor.h"

namespace fovea {

enum class WireType {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

struct WireTag {
  int field = 0;
  WireType type = WireType::kVarint;
};

// Not thread-safe. What it reads outlives it. Functions return false where the bytes are no such
// thing; the reader is then of no more use.
class WireReader {
 public:
  explicit WireReader(std::span<const ByteCursor::Piece> message) : cursor_(message) {}

  bool AtEnd() const { return cursor_.remaining() == 0; }
  size_t remaining() const { return cursor_.remaining(); }

  bool ReadTag(WireTag* tag);
  bool ReadVarint(uint64_t* value);
  // The length of a field of type kBytes, which lies inside the message.
  bool ReadLength(size_t* length);
  bool Take(size_t count, std::vector<ByteCursor::Piece>* to) { return cursor_.Take(count, to); }
  // The rest of a field whose tag has been read; groups nest up to 100 deep, as in protobuf.
  bool SkipField(WireTag tag) { return SkipField(tag, kMaxDepth); }

 private:
  static constexpr int kMaxDepth = 100;
  bool SkipField(WireTag tag, int depth);

  ByteCursor cursor_;
};

// A message taken apart.
struct SplitMessage {
  using Pieces = std::vector<ByteCursor::Piece>;

  Pieces rest;  // every other field: a message of the same type
  // The contents of the fields asked for, in the order of the message.
  struct Field {
    int field = 0;
    Pieces bytes;
  };
  std::vector<Field> fields;
};

// Takes the fields numbered `wanted` out of `message`; those must be of type kBytes. What the rest
// is long is taken off `budget`, which one request shares between its messages and starts at
// limits::kMaxRequestHeaderBytes. INVALID_ARGUMENT request.malformed: it is no message, or holds
// more than `max_fields` of them; RESOURCE_EXHAUSTED request.header_too_large: the rest is longer
// than the budget.
absl::Status Split(std::span<const ByteCursor::Piece> message, std::span<const int> wanted,
                   size_t max_fields, size_t* budget, SplitMessage* split);

// How often a message may have one of its fields.
struct FieldBound {
  int field = 0;
  size_t most = 0;
  const char* what = "";  // they are, for the error's text
  bool is_file = false;   // its bytes are counted elsewhere
};

// Whether protobuf's parser may make objects of `message`. INVALID_ARGUMENT request.malformed: it
// is none; INVALID_ARGUMENT `reason`: it has a field more often than its bound; RESOURCE_EXHAUSTED
// request.header_too_large: it is longer than limits::kMaxRequestHeaderBytes beside its files.
absl::Status CheckFields(std::span<const ByteCursor::Piece> message,
                         std::span<const FieldBound> bounds, std::string_view reason);

// INVALID_ARGUMENT request.malformed.
absl::Status MalformedMessage();

}  // namespace fovea
