// The headers of a BMP file, as Windows and OS/2 have written them. Only for probe_bmp.cc and
// decode_bmp.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace fovea {

enum class BmpCoding { kRows = 0, kRunsOfBytes = 1, kRunsOfNibbles = 2, kMasks = 3 };

struct BmpHeader {
  int64_t width = 0, height = 0;
  bool top_down = false;  // otherwise the last row comes first
  int bits = 0;           // of a pixel: 1, 4, 8 with a palette, 16, 24, 32
  BmpCoding coding = BmpCoding::kRows;
  std::array<uint32_t, 4> masks = {};  // red, green, blue, alpha of 16 and 32 bits; 0: none
  // Where they lie in the file, within it or not.
  size_t palette_at = 0, palette_entry_bytes = 4, colours = 0, pixels_at = 0;

  size_t row_bytes() const { return static_cast<size_t>((width * bits + 31) / 32 * 4); }
};

enum class BmpProblem { kNone, kTruncated, kNotBmp, kUnsupported };

// kNotBmp: the data only begin with the same two letters. Sides are not checked.
BmpProblem ReadBmpHeader(Bytes file, BmpHeader* header);

}  // namespace fovea
