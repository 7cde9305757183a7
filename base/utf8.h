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

// Separators of lines and paragraphs, and marks that turn the direction of text: a terminal or
// viewer would show other lines than were written.
inline bool IsMisleading(uint32_t code_point) {
  return code_point == 0x061C || code_point == 0x200E || code_point == 0x200F ||
         (code_point >= 0x2028 && code_point <= 0x202E) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

}  // namespace fovea
