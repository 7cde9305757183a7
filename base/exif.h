// The one thing of EXIF that changes pixels.
#pragma once

#include <string_view>

#include "base/bytes.h"

namespace fovea {

// Precedes the TIFF structure in a JPEG's segment.
inline constexpr std::string_view kExifPrefix("Exif\0\0", 6);

// The orientation, 1 to 8, that the first directory of a TIFF structure names (EXIF 2.32, tag
// 0x0112), with or without kExifPrefix before it. As Pillow it is read as a SHORT or a LONG, signed
// or not, the first of several, and behind a TIFF magic in the wrong byte order. 1 where it is
// absent, out of range, of another type, or where the structure makes no sense: bad metadata does
// not make a bad image. Only the first directory is read and no link is followed, so links in a
// circle do no harm.
int ExifOrientation(Bytes tiff);

// What turns a picture upright.
struct UprightTurn {
  bool transposed = false;   // first of all: rows become columns
  bool mirrored = false;     // left for right
  bool upside_down = false;  // top for bottom
};

// Of an orientation, 1 to 8 (which side of the picture the first row and the first column are).
constexpr UprightTurn TurnOf(int orientation) {
  return {.transposed = orientation >= 5,
          .mirrored = orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7,
          .upside_down = orientation == 3 || orientation == 4 || orientation >= 7};
}

}  // namespace fovea
