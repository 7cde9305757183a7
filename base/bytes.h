// Reading numbers out of a file's bytes. The caller has checked that they lie inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace fovea {

using Bytes = std::span<const std::byte>;

inline uint8_t U8(Bytes bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

inline uint16_t U16Big(Bytes bytes, size_t at) { return U8(bytes, at) << 8 | U8(bytes, at + 1); }

inline uint16_t U16Little(Bytes bytes, size_t at) { return U8(bytes, at) | U8(bytes, at + 1) << 8; }

inline uint32_t U24Little(Bytes bytes, size_t at) {
  return uint32_t{U16Little(bytes, at)} | uint32_t{U8(bytes, at + 2)} << 16;
}

inline uint32_t U32Big(Bytes bytes, size_t at) {
  return uint32_t{U16Big(bytes, at)} << 16 | U16Big(bytes, at + 2);
}

inline uint32_t U32Little(Bytes bytes, size_t at) {
  return uint32_t{U16Little(bytes, at)} | uint32_t{U16Little(bytes, at + 2)} << 16;
}

// Do the bytes at `at` read `text`? False where they end before it does.
inline bool StartsWith(Bytes bytes, size_t at, std::string_view text) {
  return at <= bytes.size() && bytes.size() - at >= text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

}  // namespace fovea
