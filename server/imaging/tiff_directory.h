// The first directory of a TIFF file (TIFF 6.0, section 2), which describes its first page. Read
// here before libtiff sees the file, so that whatever libtiff allocates for it is known. Only for
// probe_tiff.cc and decode_tiff.cc.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"
#include "server/imaging/image.h"

namespace fovea {

enum class TiffColours {
  kWhiteIsZero = 0,
  kBlackIsZero = 1,
  kRgb = 2,
  kPalette = 3,
  kCmyk = 5,
  kYcbcr = 6
};
enum class TiffAlpha { kNone, kPremultiplied, kStraight };

struct TiffPage {
  int64_t width = 0, height = 0;
  int bits = 1;  // of a sample
  int samples = 1;
  TiffColours colours = TiffColours::kBlackIsZero;
  TiffAlpha alpha = TiffAlpha::kNone;
  int orientation = 1;
  bool is_jpeg = false;
  bool planes = false;  // each sample in blocks of its own
  bool tiled = false;
  int64_t block_width = 0, block_height = 0;  // of a strip (as wide as the picture) or a tile
  int64_t blocks = 0;                         // in all
  int64_t metadata_bytes = 0;                 // that libtiff copies
  int64_t jpeg_coefficients = 0;              // at most, of a block

  // Of a row of a block as libtiff unpacks it, and of a block, all planes together.
  int64_t row_bytes() const { return (block_width * (planes ? 1 : samples) * bits + 7) / 8; }
  int64_t block_bytes() const { return row_bytes() * block_height * (planes ? samples : 1); }
  int64_t blocks_of_plane() const { return blocks / (planes ? samples : 1); }

  // The part of the picture that a block covers. Blocks are numbered by row, plane after plane.
  struct Area {
    int64_t left, top, width, height;
  };
  Area AreaOf(int64_t block) const;
};

// Errors as ProbeImage's: INVALID_ARGUMENT image.truncated, image.corrupt, image.unsupported_type,
// image.metadata_too_large, image.too_many_scans and those of the size.
absl::StatusOr<TiffPage> ReadTiffPage(Bytes file, const ImageLimits& limits);

}  // namespace fovea
