#include "server/transport/grpc/wire_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

// Takes `length` off `budget`, what a request may still have beside its `what`.
absl::Status TakeHeader(size_t length, const char* what, size_t* budget) {
  if (length > *budget) {
    return ResourceExhausted(
        "request.header_too_large",
        absl::StrCat("the request has more than ", limits::kMaxRequestHeaderBytes,
                     " bytes beside its ", what));
  }
  *budget -= length;
  return absl::OkStatus();
}

}  // namespace

bool WireReader::ReadVarint(uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    uint8_t byte;
    if (!cursor_.Read(1, &byte)) return false;
    result |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return false;
}

bool WireReader::ReadTag(WireTag* tag) {
  uint64_t value;
  if (!ReadVarint(&value) || value > UINT32_MAX || (value >> 3) == 0 || (value & 7) > 5)
    return false;
  *tag = {static_cast<int>(value >> 3), static_cast<WireType>(value & 7)};
  return true;
}

bool WireReader::ReadLength(size_t* length) {
  uint64_t value;
  if (!ReadVarint(&value) || value > cursor_.remaining()) return false;
  *length = value;
  return true;
}

bool WireReader::SkipField(WireTag tag, int depth) {
  switch (tag.type) {
    case WireType::kVarint: {
      uint64_t value;
      return ReadVarint(&value);
    }
    case WireType::kFixed64:
      return cursor_.Skip(8);
    case WireType::kFixed32:
      return cursor_.Skip(4);
    case WireType::kBytes: {
      size_t length;
      return ReadLength(&length) && cursor_.Skip(length);
    }
    case WireType::kGroup:
      for (;;) {
        WireTag inner;
        if (depth == 0 || !ReadTag(&inner)) return false;
        if (inner.type == WireType::kEndGroup) return inner.field == tag.field;
        if (!SkipField(inner, depth - 1)) return false;
      }
    case WireType::kEndGroup:
      return false;
  }
  return false;
}

absl::Status MalformedMessage() {
  return InvalidArgument("request.malformed", "the message is no valid protobuf");
}

absl::Status Split(std::span<const ByteCursor::Piece> message, std::span<const int> wanted,
                   size_t max_fields, size_t* budget, SplitMessage* split) {
  WireReader reader(message);
  ByteCursor behind(message);  // stands where the reader stood before the current field
  while (!reader.AtEnd()) {
    WireTag tag;
    if (!reader.ReadTag(&tag)) return MalformedMessage();
    if (std::find(wanted.begin(), wanted.end(), tag.field) == wanted.end()) {
      if (!reader.SkipField(tag)) return MalformedMessage();
      const size_t length = behind.remaining() - reader.remaining();
      FOVEA_RETURN_IF_ERROR(TakeHeader(length, "tensors", budget));
      behind.Take(length, &split->rest);
      continue;
    }
    size_t length;
    if (tag.type != WireType::kBytes || !reader.ReadLength(&length)) return MalformedMessage();
    if (split->fields.size() == max_fields) {
      return InvalidArgument(
          "request.malformed",
          absl::StrCat("the message repeats a field more than ", max_fields, " times"));
    }
    SplitMessage::Field& field = split->fields.emplace_back();
    field.field = tag.field;
    reader.Take(length, &field.bytes);
    behind.Skip(behind.remaining() - reader.remaining());
  }
  return absl::OkStatus();
}

absl::Status CheckFields(std::span<const ByteCursor::Piece> message,
                         std::span<const FieldBound> bounds, std::string_view reason) {
  std::vector<size_t> counts(bounds.size());
  size_t budget = limits::kMaxRequestHeaderBytes;
  WireReader reader(message);
  while (!reader.AtEnd()) {
    const size_t before = reader.remaining();
    WireTag tag;
    if (!reader.ReadTag(&tag) || !reader.SkipField(tag)) return MalformedMessage();
    const auto bound = std::ranges::find(bounds, tag.field, &FieldBound::field);
    if (bound != bounds.end() && ++counts[bound - bounds.begin()] > bound->most) {
      return InvalidArgument(
          reason, absl::StrCat("the message has more than ", bound->most, " ", bound->what));
    }
    if (bound != bounds.end() && bound->is_file && tag.type == WireType::kBytes) continue;
    FOVEA_RETURN_IF_ERROR(TakeHeader(before - reader.remaining(), "images", &budget));
  }
  return absl::OkStatus();
}

}  // namespace fovea
