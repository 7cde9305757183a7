#include <cstdint>
#include <cstring>

#include "server/admission/request_rules.h"
#include "server/core/byte_cursor.h"

namespace fovea {
namespace {

// NaN and the infinities are the numbers whose exponent is all ones.
constexpr uint32_t kExponent = 0x7F800000;

// `bytes` is a whole number of floats, not necessarily aligned. Without a branch in the loop, so
// that it vectorises; in blocks, so that a bad number near the front ends it early.
bool AllFinite(const std::byte* bytes, size_t floats) {
  constexpr size_t kBlock = 4096;
  while (floats > 0) {
    const size_t count = floats < kBlock ? floats : kBlock;
    uint32_t bad = 0;
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits;
      std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
      bad |= static_cast<uint32_t>((bits & kExponent) == kExponent);
    }
    if (bad != 0) return false;
    bytes += count * sizeof(uint32_t);
    floats -= count;
  }
  return true;
}

}  // namespace

bool IsFinite(const ScatteredBytes& data) {
  ByteCursor cursor(data);
  while (cursor.remaining() >= sizeof(float)) {
    const ScatteredBytes::Piece piece = cursor.Contiguous();
    const size_t whole = piece.size() / sizeof(float);
    if (whole > 0) {
      if (!AllFinite(piece.data(), whole)) return false;
      cursor.Skip(whole * sizeof(float));
    } else {
      // A number that two pieces or more share.
      std::byte gathered[sizeof(float)];
      cursor.Read(sizeof(gathered), gathered);
      if (!AllFinite(gathered, 1)) return false;
    }
  }
  return true;
}

}  // namespace fovea
