// Encoded image to upright 8-bit RGB.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "server/imaging/image.h"

namespace fovea {

struct DecodeOptions {
  // What shows through where a PNG or WebP is transparent. White, as on a page: that is what such
  // pictures are drawn for, and black lettering on nothing stays legible. (Pillow's convert("RGB")
  // drops the alpha instead and shows whatever colour the file holds under it.)
  Rgb background = {255, 255, 255};
  // Of a JPEG's sides, as HalvingsFor says for its header. Turning it up is faster, and no longer
  // what Pillow decodes.
  int halvings = 0;
};

// The pixels of `encoded`, whose header ProbeImage read as `info`, turned upright by its EXIF
// orientation; of a JPEG with halvings DecodedSide of each. Thread-safe.
//
// Equal to Pillow's (with halvings to its Image.draft): JPEG by libjpeg-turbo's exact integer DCT
// and smooth chroma upsampling, PNG and WebP by libpng and libwebp. Samples of 1, 2 and 4 bits are
// scaled to the full range, 16-bit samples rounded to 8, CMYK read as Adobe writes it
// (base/pixel_format.h), transparency laid over the background. Colour profiles and gamma are
// ignored.
//
// All pixels or none: a JPEG that makes libjpeg as much as warn is an error, because what it could
// not decode it fills with whatever was there before; so is a PNG whose palette or transparency
// libpng would do without. Errors: INVALID_ARGUMENT image.corrupt, UNAVAILABLE
// server.out_of_memory, INTERNAL image.codec_failed.
absl::StatusOr<RgbImage> DecodeImage(Bytes encoded, const ImageInfo& info,
                                     const DecodeOptions& options = {});

}  // namespace fovea
