// From a file, or from pixels of any size, to the pixels that a model takes. What normalises them
// is the executor.
#pragma once

#include <cstdint>
#include <span>

#include "server/core/clock.h"
#include "server/core/status.h"
#include "server/imaging/decode.h"
#include "server/imaging/image.h"
#include "server/imaging/pixel_budget.h"
#include "server/imaging/resize_plan.h"

namespace fovea {

struct ImagingOptions {
  ImageLimits limits;
  DecodeOptions decode;
};

// Where the time of one image went; what a failed stage took counts too.
struct ImagingTimes {
  Nanos decode = 0;      // probe, decode, turn upright
  Nanos preprocess = 0;  // resize and crop
};

// Decodes a JPEG, PNG or WebP file, turns it upright, resizes and crops it: `spec.bytes()` bytes of
// 8-bit RGB [spec.height, spec.width, 3] into `out`, which is left alone unless the result is OK.
// Bit-equal to Pillow's decoding, ImageOps.exif_transpose and timm's evaluation transform. Works on
// the calling thread. Thread-safe. `spec` passes CheckPreprocessSpec. `times` may be null. Errors:
// those of ProbeImage, PixelBudget::Reserve and DecodeImage.
absl::Status DecodeAndResize(Bytes encoded, const PreprocessSpec& spec,
                             const ImagingOptions& options, PixelBudget& budget, const Clock& clock,
                             std::span<uint8_t> out, ImagingTimes* times = nullptr);

// The same from 8-bit RGB [height, width, 3], under the same limits on sides and pixels. An image
// that already has the model's size, with nothing to cut off, is copied. INVALID_ARGUMENT
// image.bad_size where `rgb` has another number of bytes, or the limits' reasons.
absl::Status ResizeRgb(std::span<const uint8_t> rgb, int64_t height, int64_t width,
                       const PreprocessSpec& spec, const ImageLimits& limits,
                       std::span<uint8_t> out);

}  // namespace fovea
