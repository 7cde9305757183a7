#include "server/core/bytes_tensor.h"

#include <utility>

#include "server/core/byte_cursor.h"

namespace fovea {
namespace {

constexpr size_t kLengthBytes = sizeof(uint32_t);

bool ReadLength(ByteCursor& cursor, uint32_t* length) {
  unsigned char bytes[kLengthBytes];
  if (!cursor.Read(kLengthBytes, bytes)) return false;
  *length = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | uint32_t{bytes[3]} << 24;
  return true;
}

}  // namespace

bool IsBytesTensor(const ScatteredBytes& data, int64_t count) {
  ByteCursor cursor(data);
  for (; count > 0; --count) {
    uint32_t length;
    if (!ReadLength(cursor, &length) || !cursor.Skip(length)) return false;
  }
  return count == 0 && cursor.remaining() == 0;
}

std::optional<std::vector<ScatteredBytes>> SplitBytesTensor(const ScatteredBytes& data,
                                                            int64_t count) {
  // The count is a caller's word until the bytes have borne it out.
  if (!IsBytesTensor(data, count)) return std::nullopt;
  std::vector<ScatteredBytes> elements;
  elements.reserve(count);
  ByteCursor cursor(data);
  for (; count > 0; --count) {
    uint32_t length = 0;
    std::vector<ScatteredBytes::Piece> pieces;
    ReadLength(cursor, &length);
    cursor.Take(length, &pieces);
    elements.emplace_back(std::move(pieces), data.owner());
  }
  return elements;
}

}  // namespace fovea
