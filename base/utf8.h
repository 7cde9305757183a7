// UTF-8, one code point at a time.
#pragma once

#include <cstdint>
#include <string_view>

namespace fovea {

struct CodePoint {
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;
  uint32_t value = kInvalid;
  int length = 1;  // bytes taken; 1 where they are invalid
};

// The first code point of `text`, which is not empty. Overlong forms, surrogates and numbers past
// U+10FFFF are invalid.
CodePoint DecodeUtf8(std::string_view text);

// C0, DEL and C1: what moves a terminal's cursor or ends a line.
inline bool IsControl(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
}

}  // namespace fovea
