// Tensors as they cross the wire: a name, a type, a shape and bytes. No framework behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// The Open Inference Protocol's types, and Triton's BF16.
enum class DataType {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
  kBytes,
};

// "FP32" <-> DataType::kFp32.
std::string_view DataTypeName(DataType type);
std::optional<DataType> ParseDataType(std::string_view name);
// Bytes of one element; 0 for kBytes, whose elements vary.
size_t ElementSize(DataType type);

// The number of elements of `shape`; nothing when it overflows int64 or a dimension is negative.
std::optional<int64_t> ElementCount(std::span<const int64_t> shape);

// Bytes that lie in several pieces, as they came from the socket, and what keeps them alive.
// Immutable once built; copies share the pieces.
class ScatteredBytes {
 public:
  using Piece = std::span<const std::byte>;

  ScatteredBytes() = default;
  // One piece; `owner` keeps it alive.
  ScatteredBytes(Piece piece, std::shared_ptr<const void> owner);
  ScatteredBytes(std::vector<Piece> pieces, std::shared_ptr<const void> owner);
  // Owns a copy of `text`.
  static ScatteredBytes Copy(std::string_view text);

  size_t size() const { return size_; }
  std::span<const Piece> pieces() const { return pieces_; }
  // Keeps the pieces alive; null where there is none.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // Copies bytes [offset, offset + count) to `to`. They must lie inside.
  void CopyTo(size_t offset, size_t count, void* to) const;
  // Bytes [offset, offset + count) as pieces of this one, sharing its owner. They must lie inside.
  ScatteredBytes Slice(size_t offset, size_t count) const;
  // The bytes in one piece: a view where they already lie in one, otherwise gathered into
  // `*storage`.
  Piece Contiguous(std::vector<std::byte>* storage) const;

 private:
  std::vector<Piece> pieces_;
  std::shared_ptr<const void> owner_;
  size_t size_ = 0;
};

// Data is row-major and little-endian; for kBytes every element is a uint32 length and its bytes.
struct InputTensor {
  std::string name;
  DataType type = DataType::kFp32;
  std::vector<int64_t> shape;
  ScatteredBytes data;
};

// Where a tensor lies that is not in its message (Triton's system_shared_memory extension), as its
// caller says: nothing of it is checked yet.
struct SharedMemorySpan {
  std::string region;
  int64_t offset = 0;
  int64_t byte_size = -1;  // -1: not told, or no number

  bool operator==(const SharedMemorySpan&) const = default;
};

struct OutputTensor {
  std::string name;
  DataType type = DataType::kFp32;
  std::vector<int64_t> shape;
  std::string data;
  // What follows `data`: of several pictures that ran one by one, what each of the others gave.
  // They go onto the wire as they are: one piece of them all would be a second copy of an answer.
  std::vector<std::string> further = {};
  // Where its bytes were put instead, and how many they are.
  std::optional<SharedMemorySpan> shared_memory = std::nullopt;

  size_t bytes() const {
    size_t size = data.size();
    for (const std::string& part : further) size += part.size();
    return size;
  }
};

}  // namespace fovea
