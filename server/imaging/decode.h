// Encoded image to upright 8-bit RGB.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "server/imaging/image.h"

namespace fovea {

struct DecodeOptions {
  // What shows through where a picture is transparent. White, as on a page: that is what such
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
// and smooth chroma upsampling, the others by libraries that Pillow uses, too. Samples of 1, 2 and
// 4 bits are scaled to the full range, 16-bit samples rounded to 8, CMYK read as Adobe writes it
// (base/pixel_format.h), transparency laid over the background. Of an animation the first frame, of
// a TIFF file the first page. Colour profiles and gamma are ignored.
//
// All pixels or none: where libjpeg warns that it has made pixels up it is an error, and so is a
// PNG whose palette or transparency is damaged, or for whose pixels no checksum vouches. Errors:
// INVALID_ARGUMENT image.corrupt, RESOURCE_EXHAUSTED image.too_large_to_decode (a WebP that asks
// for more than its size allows), UNAVAILABLE server.out_of_memory, INTERNAL image.codec_failed.
absl::StatusOr<RgbImage> DecodeImage(Bytes encoded, const ImageInfo& info,
                                     const DecodeOptions& options = {});

}  // namespace fovea
