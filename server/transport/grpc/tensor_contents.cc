#include "server/transport/grpc/tensor_contents.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/transport/grpc/wire_reader.h"

namespace fovea {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensors are little-endian");

using Piece = ScatteredBytes::Piece;

// The field of inference.InferTensorContents that holds elements of a type; 0 where there is none.
int FieldOf(DataType type) {
  switch (type) {
    case DataType::kBool:
      return 1;
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
      return 2;
    case DataType::kInt64:
      return 3;
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
      return 4;
    case DataType::kUint64:
      return 5;
    case DataType::kFp32:
      return 6;
    case DataType::kFp64:
      return 7;
    case DataType::kBytes:
      return 8;
    case DataType::kFp16:
    case DataType::kBf16:
      return 0;
  }
  return 0;
}
constexpr int kLastField = 8;

absl::Status WrongCount(int64_t elements) {
  return InvalidArgument(
      "request.contents_count",
      absl::StrCat("contents does not hold the ", elements, " elements that the shape says"));
}

absl::Status TooMuchWork(std::string_view what, int64_t most) {
  return ResourceExhausted("request.contents_too_large",
                           absl::StrCat("the request's typed contents hold more than ", most, " ",
                                        std::string(what), ": send raw_input_contents"));
}

// The wire's form of an element: what its field reads as, before it is narrowed to the tensor's
// type.
bool Fits(DataType type, uint64_t value) {
  // As protobuf does: an int32 or uint32 is the low half of what was sent.
  const auto narrow = static_cast<int32_t>(value);
  const auto unsigned_narrow = static_cast<uint32_t>(value);
  switch (type) {
    case DataType::kInt8:
      return narrow == static_cast<int8_t>(narrow);
    case DataType::kInt16:
      return narrow == static_cast<int16_t>(narrow);
    case DataType::kUint8:
      return unsigned_narrow == static_cast<uint8_t>(unsigned_narrow);
    case DataType::kUint16:
      return unsigned_narrow == static_cast<uint16_t>(unsigned_narrow);
    default:
      return true;
  }
}

// Collects the elements of one tensor from its field's occurrences: packed or one by one, in any
// number of runs.
class Collector {
 public:
  Collector(DataType type, int64_t elements) : type_(type), missing_(elements) {}
  virtual ~Collector() = default;
  virtual absl::Status Add(WireType wire_type, WireReader& reader) = 0;
  virtual ScatteredBytes Finish(const std::shared_ptr<const void>& owner) = 0;
  int64_t missing() const { return missing_; }

 protected:
  const DataType type_;
  int64_t missing_;
};

// FP32 and FP64: the wire has them as memory does.
class FixedCollector final : public Collector {
 public:
  using Collector::Collector;

  absl::Status Add(WireType wire_type, WireReader& reader) override {
    const size_t size = ElementSize(type_);
    size_t length = size;
    if (wire_type == WireType::kBytes) {
      if (!reader.ReadLength(&length) || length % size != 0) return MalformedMessage();
    } else if (wire_type != (size == 4 ? WireType::kFixed32 : WireType::kFixed64)) {
      return MalformedMessage();
    }
    missing_ -= length / size;
    if (missing_ < 0) return absl::OkStatus();
    return reader.Take(length, &pieces_) ? absl::OkStatus() : MalformedMessage();
  }
  ScatteredBytes Finish(const std::shared_ptr<const void>& owner) override {
    return ScatteredBytes(std::move(pieces_), owner);
  }

 private:
  std::vector<Piece> pieces_;
};

// BOOL and the integers.
class VarintCollector final : public Collector {
 public:
  VarintCollector(DataType type, int64_t elements)
      : Collector(type, elements), element_size_(ElementSize(type)) {
    bytes_.reserve(elements * element_size_);
  }

  absl::Status Add(WireType wire_type, WireReader& reader) override {
    if (wire_type == WireType::kVarint) return AddOne(reader);
    size_t length;
    if (wire_type != WireType::kBytes || !reader.ReadLength(&length)) return MalformedMessage();
    const size_t end = reader.remaining() - length;
    while (reader.remaining() > end && missing_ >= 0) FOVEA_RETURN_IF_ERROR(AddOne(reader));
    // The last number may not reach past its run.
    return reader.remaining() == end || missing_ < 0 ? absl::OkStatus() : MalformedMessage();
  }
  ScatteredBytes Finish(const std::shared_ptr<const void>&) override {
    auto owner = std::make_shared<const std::string>(std::move(bytes_));
    const Piece piece = std::as_bytes(std::span(*owner));
    return ScatteredBytes(piece, std::move(owner));
  }

 private:
  absl::Status AddOne(WireReader& reader) {
    uint64_t value;
    if (!reader.ReadVarint(&value)) return MalformedMessage();
    if (type_ == DataType::kBool) value = value != 0;
    if (!Fits(type_, value)) {
      return InvalidArgument(
          "request.contents_range",
          absl::StrCat("contents holds a number that is no ", std::string(DataTypeName(type_))));
    }
    if (--missing_ >= 0) bytes_.append(reinterpret_cast<const char*>(&value), element_size_);
    return absl::OkStatus();
  }

  const size_t element_size_;
  std::string bytes_;
};

// BYTES: between the elements, which stay where they are, go their lengths.
class BytesCollector final : public Collector {
 public:
  BytesCollector(DataType type, int64_t elements) : Collector(type, elements) {
    lengths_.reserve(elements);  // the pieces point into it
  }

  absl::Status Add(WireType wire_type, WireReader& reader) override {
    size_t length;
    if (wire_type != WireType::kBytes || !reader.ReadLength(&length)) return MalformedMessage();
    if (--missing_ < 0) return absl::OkStatus();
    if (length > UINT32_MAX) return MalformedMessage();
    lengths_.push_back(static_cast<uint32_t>(length));
    pieces_.push_back(std::as_bytes(std::span(&lengths_.back(), 1)));
    std::vector<Piece> element;
    reader.Take(length, &element);
    pieces_.insert(pieces_.end(), element.begin(), element.end());
    return absl::OkStatus();
  }
  ScatteredBytes Finish(const std::shared_ptr<const void>& owner) override {
    struct Owners {
      std::vector<uint32_t> lengths;
      std::shared_ptr<const void> elements;
    };
    auto owners = std::make_shared<Owners>();
    owners->lengths = std::move(lengths_);
    owners->elements = owner;
    return ScatteredBytes(std::move(pieces_), std::move(owners));
  }

 private:
  std::vector<uint32_t> lengths_;
  std::vector<Piece> pieces_;
};

// What collecting the elements of a tensor takes at most.
int64_t CollectedBytes(DataType type, int64_t elements) {
  const int64_t runs = std::min(elements, limits::kMaxContentsFields) * sizeof(Piece);
  if (type == DataType::kBytes) return elements * sizeof(uint32_t) + 2 * runs;
  if (type == DataType::kFp32 || type == DataType::kFp64) return runs;
  return elements * static_cast<int64_t>(ElementSize(type));
}

std::unique_ptr<Collector> MakeCollector(DataType type, int64_t elements) {
  if (type == DataType::kBytes) return std::make_unique<BytesCollector>(type, elements);
  if (type == DataType::kFp32 || type == DataType::kFp64) {
    return std::make_unique<FixedCollector>(type, elements);
  }
  return std::make_unique<VarintCollector>(type, elements);
}

// BOOL, FP32 and FP64 have the same form on the wire as in memory, in one packed field.
bool IsPackedAsItIs(DataType type) {
  return type == DataType::kBool || type == DataType::kFp32 || type == DataType::kFp64;
}

// Maximum bytes of one integer of the type. Negative ones are extended to 64 bits, as in protobuf.
int64_t LongestVarint(DataType type) {
  const bool is_signed = FieldOf(type) == FieldOf(DataType::kInt32) || type == DataType::kInt64;
  return is_signed ? 10 : (static_cast<int64_t>(ElementSize(type)) * 8 + 6) / 7;
}

// Writes `bytes`, which hold whole integers.
template <typename Integer>
void AppendVarints(std::string_view bytes, std::string* packed) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Integer)) {
    Integer number;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    auto left = static_cast<uint64_t>(number);
    for (; left >= 0x80; left >>= 7) packed->push_back(static_cast<char>(left | 0x80));
    packed->push_back(static_cast<char>(left));
  }
}

void AppendVarints(DataType type, std::string_view bytes, std::string* packed) {
  switch (type) {
    case DataType::kInt8:
      return AppendVarints<int8_t>(bytes, packed);
    case DataType::kInt16:
      return AppendVarints<int16_t>(bytes, packed);
    case DataType::kInt32:
      return AppendVarints<int32_t>(bytes, packed);
    case DataType::kInt64:
      return AppendVarints<int64_t>(bytes, packed);
    case DataType::kUint8:
      return AppendVarints<uint8_t>(bytes, packed);
    case DataType::kUint16:
      return AppendVarints<uint16_t>(bytes, packed);
    case DataType::kUint32:
      return AppendVarints<uint32_t>(bytes, packed);
    case DataType::kUint64:
      return AppendVarints<uint64_t>(bytes, packed);
    default:
      FOVEA_CHECK(false);
  }
}

// Writes a field for each element.
void AppendElements(std::string_view bytes, EncodedMessage* contents) {
  while (!bytes.empty()) {
    uint32_t size;
    std::memcpy(&size, bytes.data(), sizeof(size));
    contents->AppendBytes(FieldOf(DataType::kBytes), std::string(bytes.substr(sizeof(size), size)));
    bytes.remove_prefix(sizeof(size) + size);
  }
}

}  // namespace

bool HasTypedContents(DataType type) { return FieldOf(type) != 0; }

EncodedMessage WriteTensorContents(OutputTensor output) {
  EncodedMessage contents;
  if (IsPackedAsItIs(output.type)) {
    contents.AppendBytes(FieldOf(output.type), std::move(output.data), std::move(output.further));
    return contents;
  }
  if (output.type == DataType::kBytes) {
    AppendElements(output.data, &contents);
    for (const std::string& part : output.further) AppendElements(part, &contents);
    return contents;
  }
  std::string packed;
  packed.reserve(TypedContentsBytes(output));
  AppendVarints(output.type, output.data, &packed);
  for (const std::string& part : output.further) AppendVarints(output.type, part, &packed);
  contents.AppendBytes(FieldOf(output.type), std::move(packed));
  return contents;
}

int64_t TypedContentsBytes(const OutputTensor& output) {
  constexpr int64_t kTagAndLength = 11;
  const auto bytes = static_cast<int64_t>(output.bytes());
  if (IsPackedAsItIs(output.type)) return kTagAndLength + bytes;
  // An element's tag and length take at most two bytes more than its length did.
  if (output.type == DataType::kBytes) return bytes + bytes / 2;
  return kTagAndLength +
         LongestVarint(output.type) * bytes / static_cast<int64_t>(ElementSize(output.type));
}

absl::StatusOr<ScatteredBytes> ReadTensorContents(std::span<const Piece> contents,
                                                  const std::shared_ptr<const void>& owner,
                                                  DataType type, int64_t elements,
                                                  ContentsBudget* budget) {
  const int field = FieldOf(type);
  if (field == 0) {
    return InvalidArgument(
        "request.contents_type",
        absl::StrCat(std::string(DataTypeName(type)), " tensors come in raw_input_contents only"));
  }
  WireReader reader(contents);
  // An element takes a byte at least: what the shape says is believed only as far as the message is
  // long.
  if (elements < 0 || static_cast<uint64_t>(elements) > reader.remaining()) {
    return WrongCount(elements);
  }
  const bool converted =
      type != DataType::kBytes && type != DataType::kFp32 && type != DataType::kFp64;
  if (converted && (budget->converted_elements -= elements) < 0) {
    return TooMuchWork("integers", limits::kMaxConvertedElements);
  }
  if (budget->memory != nullptr) {
    FOVEA_RETURN_IF_ERROR(budget->memory->Take(CollectedBytes(type, elements)));
  }
  const std::unique_ptr<Collector> collector = MakeCollector(type, elements);
  while (!reader.AtEnd()) {
    if (--budget->fields < 0) return TooMuchWork("fields", limits::kMaxContentsFields);
    WireTag tag;
    if (!reader.ReadTag(&tag)) return MalformedMessage();
    if (tag.field > kLastField) {
      if (!reader.SkipField(tag)) return MalformedMessage();
      continue;
    }
    if (tag.field != field) {
      return InvalidArgument("request.contents_type",
                             absl::StrCat("contents holds elements of another type than ",
                                          std::string(DataTypeName(type))));
    }
    FOVEA_RETURN_IF_ERROR(collector->Add(tag.type, reader));
    if (collector->missing() < 0) return WrongCount(elements);
  }
  if (collector->missing() != 0) return WrongCount(elements);
  return collector->Finish(owner);
}

}  // namespace fovea
