#include "server/core/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace fovea {
namespace {

struct TypeRow {
  DataType type;
  std::string_view name;
  size_t size;
};

constexpr std::array<TypeRow, 14> kTypes = {{
    {DataType::kBool, "BOOL", 1},
    {DataType::kUint8, "UINT8", 1},
    {DataType::kUint16, "UINT16", 2},
    {DataType::kUint32, "UINT32", 4},
    {DataType::kUint64, "UINT64", 8},
    {DataType::kInt8, "INT8", 1},
    {DataType::kInt16, "INT16", 2},
    {DataType::kInt32, "INT32", 4},
    {DataType::kInt64, "INT64", 8},
    {DataType::kFp16, "FP16", 2},
    {DataType::kBf16, "BF16", 2},
    {DataType::kFp32, "FP32", 4},
    {DataType::kFp64, "FP64", 8},
    {DataType::kBytes, "BYTES", 0},
}};

const TypeRow& Row(DataType type) {
  const TypeRow& row = kTypes[static_cast<size_t>(type)];
  FOVEA_CHECK(row.type == type);
  return row;
}

}  // namespace

std::string_view DataTypeName(DataType type) { return Row(type).name; }

std::optional<DataType> ParseDataType(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

size_t ElementSize(DataType type) { return Row(type).size; }

std::optional<int64_t> ElementCount(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(count, dimension, &count)) return std::nullopt;
  }
  return count;
}

ScatteredBytes::ScatteredBytes(Piece piece, std::shared_ptr<const void> owner)
    : ScatteredBytes(std::vector<Piece>{piece}, std::move(owner)) {}

ScatteredBytes::ScatteredBytes(std::vector<Piece> pieces, std::shared_ptr<const void> owner)
    : pieces_(std::move(pieces)), owner_(std::move(owner)) {
  for (Piece piece : pieces_) size_ += piece.size();
}

ScatteredBytes ScatteredBytes::Copy(std::string_view text) {
  auto owner = std::make_shared<const std::string>(text);
  Piece piece = std::as_bytes(std::span(*owner));
  return ScatteredBytes(piece, std::move(owner));
}

void ScatteredBytes::CopyTo(size_t offset, size_t count, void* to) const {
  FOVEA_CHECK(offset <= size_ && count <= size_ - offset);
  auto* out = static_cast<std::byte*>(to);
  for (Piece piece : pieces_) {
    if (count == 0) return;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const size_t step = std::min(count, piece.size() - offset);
    std::memcpy(out, piece.data() + offset, step);
    out += step;
    count -= step;
    offset = 0;
  }
}

ScatteredBytes ScatteredBytes::Slice(size_t offset, size_t count) const {
  FOVEA_CHECK(offset <= size_ && count <= size_ - offset);
  std::vector<Piece> slice;
  for (Piece piece : pieces_) {
    if (count == 0) break;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const size_t step = std::min(count, piece.size() - offset);
    slice.push_back(piece.subspan(offset, step));
    count -= step;
    offset = 0;
  }
  return ScatteredBytes(std::move(slice), owner_);
}

ScatteredBytes::Piece ScatteredBytes::Contiguous(std::vector<std::byte>* storage) const {
  if (pieces_.empty()) return {};
  if (pieces_.size() == 1) return pieces_[0];
  storage->resize(size_);
  CopyTo(0, size_, storage->data());
  return *storage;
}

}  // namespace fovea
