#include "base/utf8.h"

namespace fovea {

CodePoint DecodeUtf8(std::string_view text) {
  const auto byte = [&](int i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  int length;
  uint32_t value, least;
  if (lead >= 0xC2 && lead < 0xE0) {
    length = 2, value = lead & 0x1F, least = 0x80;
  } else if (lead >= 0xE0 && lead < 0xF0) {
    length = 3, value = lead & 0x0F, least = 0x800;
  } else if (lead >= 0xF0 && lead < 0xF5) {
    length = 4, value = lead & 0x07, least = 0x10000;
  } else {
    return {};
  }
  if (text.size() < static_cast<size_t>(length)) return {};
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (value < least || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

}  // namespace fovea
