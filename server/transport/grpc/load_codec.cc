#include "server/transport/grpc/load_codec.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/inference/inference.pb.h"
#include "server/core/byte_cursor.h"
#include "server/transport/grpc/piece_stream.h"
#include "server/transport/grpc/wire_reader.h"

namespace fovea {
namespace {

using inference::ModelRepositoryParameter;
using inference::RepositoryModelLoadRequest;
using Pieces = std::span<const ByteCursor::Piece>;

// Of an entry of a map in protobuf.
constexpr int kKey = 1, kValue = 2;

// Protobuf keeps what it does not know until it is told to discard it. An empty string, of two
// bytes on the wire, costs most: a record of 16 in a vector that doubles (old and new take 48
// together), and 48 of the heap for its std::string.
constexpr int64_t kMaxParsedBytesPerWireByte = 48;

int64_t SizeOf(Pieces pieces) {
  int64_t size = 0;
  for (const ByteCursor::Piece piece : pieces) size += static_cast<int64_t>(piece.size());
  return size;
}

// Counted before it is allocated.
absl::StatusOr<std::string> Copy(Pieces pieces, RequestMemory& memory) {
  const int64_t size = SizeOf(pieces);
  FOVEA_RETURN_IF_ERROR(memory.Take(size));
  std::string copy(static_cast<size_t>(size), '\0');
  ByteCursor(pieces).Read(copy.size(), copy.data());
  return copy;
}

// Of what is no file, which is counted as what protobuf makes of it.
absl::Status SplitText(Pieces message, std::span<const int> wanted, size_t max_fields,
                       size_t* text_budget, RequestMemory& memory, SplitMessage* split) {
  const size_t before = *text_budget;
  const absl::Status done = Split(message, wanted, max_fields, text_budget, split);
  if (absl::IsResourceExhausted(done)) {
    return ResourceExhausted(
        "request.too_large",
        absl::StrCat("a load of more than ", limits::kMaxLoadTextBytes, " bytes beside its files"));
  }
  FOVEA_RETURN_IF_ERROR(done);
  return memory.Take(kMaxParsedBytesPerWireByte * static_cast<int64_t>(before - *text_budget));
}

// The last contents of the field `number` there; empty where it is not.
absl::StatusOr<SplitMessage::Pieces> LastField(Pieces message, int number) {
  SplitMessage::Pieces contents;
  WireReader reader(message);
  while (!reader.AtEnd()) {
    WireTag tag;
    if (!reader.ReadTag(&tag)) return MalformedMessage();
    if (tag.field != number || tag.type != WireType::kBytes) {
      if (!reader.SkipField(tag)) return MalformedMessage();
      continue;
    }
    size_t length = 0;
    contents.clear();
    if (!reader.ReadLength(&length) || !reader.Take(length, &contents)) return MalformedMessage();
  }
  return contents;
}

// A file is copied from where it lies; everything else is short.
absl::StatusOr<LoadCall::Parameter> ReadParameter(Pieces entry, size_t* text_budget,
                                                  int64_t* file_budget, RequestMemory& memory) {
  LoadCall::Parameter parameter;
  FOVEA_ASSIGN_OR_RETURN(const SplitMessage::Pieces key, LastField(entry, kKey));
  FOVEA_ASSIGN_OR_RETURN(const SplitMessage::Pieces value, LastField(entry, kValue));
  constexpr int kFile[] = {ModelRepositoryParameter::kBytesParamFieldNumber};
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(SplitText(value, kFile, 1, text_budget, memory, &split));
  if (static_cast<size_t>(SizeOf(key)) > *text_budget) {
    return ResourceExhausted("request.too_large", "the names of parameters are too long");
  }
  *text_budget -= static_cast<size_t>(SizeOf(key));
  FOVEA_ASSIGN_OR_RETURN(parameter.name, Copy(key, memory));
  if (!split.fields.empty()) {
    *file_budget -= SizeOf(split.fields.front().bytes);
    if (*file_budget < 0) {
      return ResourceExhausted(
          "request.too_large",
          absl::StrCat("files of more than ", limits::kMaxSentFileBytes, " bytes in one load"));
    }
    FOVEA_ASSIGN_OR_RETURN(parameter.bytes, Copy(split.fields.front().bytes, memory));
    return parameter;
  }
  ModelRepositoryParameter text;
  if (!ParsePieces(split.rest, &text)) return MalformedMessage();
  if (text.has_string_param()) parameter.text = std::move(*text.mutable_string_param());
  return parameter;
}

}  // namespace

absl::StatusOr<LoadCall> ReadLoadRequest(const ReceivedBytes& message, RequestMemory& memory) {
  constexpr int kParameters[] = {RepositoryModelLoadRequest::kParametersFieldNumber};
  size_t text_budget = limits::kMaxLoadTextBytes;
  int64_t file_budget = limits::kMaxSentFileBytes;
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(SplitText(message.pieces, kParameters, limits::kMaxParametersPerRequest,
                                  &text_budget, memory, &split));
  RepositoryModelLoadRequest head;
  if (!ParsePieces(split.rest, &head)) return MalformedMessage();
  int64_t kept = 0;
  LoadCall call{.repository_name = head.repository_name(), .model_name = head.model_name()};
  for (const SplitMessage::Field& entry : split.fields) {
    FOVEA_ASSIGN_OR_RETURN(LoadCall::Parameter parameter,
                           ReadParameter(entry.bytes, &text_budget, &file_budget, memory));
    kept += static_cast<int64_t>(parameter.name.size() + parameter.text.value_or("").size() +
                                 (parameter.bytes ? parameter.bytes->size() : 0));
    call.parameters.push_back(std::move(parameter));
  }
  memory.KeepOnly(kept);
  FOVEA_RETURN_IF_ERROR(memory.Take(call.LargestFile()));
  return call;
}

}  // namespace fovea
