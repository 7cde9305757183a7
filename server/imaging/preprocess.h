// From a file, or from pixels of any size, to the pixels that a model takes. What normalises them
// is the executor.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/memory_budget.h"
#include "server/core/resized_image.h"
#include "server/core/tensor.h"
#include "server/imaging/decode.h"
#include "server/imaging/image.h"
#include "server/imaging/resize_plan.h"

namespace fovea {

struct ImagingOptions {
  ImageLimits limits;
  DecodeOptions decode;
};

// Where the time of one image went; what a failed stage took counts too.
struct ImageDurations {
  Nanos wait = 0;          // for memory
  Nanos decode = 0;        // probe, decode, turn upright
  Nanos preprocess = 0;    // resize and crop
  Nanos decoded = kNever;  // when it was decoded; kNever: it never was
};

// What the work on one image may use. Outlives the call.
struct ImagingResources {
  MemoryBudget& budget;  // of everything that is allocated on the way; waited for
  Clock& clock;
  Nanos until = kNever;          // who has not got the memory by then gives up
  MemoryBudget::Rank rank = {};  // among those who wait for memory
  CancellationPtr cancellation;  // of the request; may be null
};

// Decodes a file, turns it upright, resizes and crops it. Bit-equal to Pillow's
// decoding, ImageOps.exif_transpose and timm's evaluation transform; where `spec` has fast_decode
// and HalvingsFor says so, to Image.draft and a resize of DecodedBox instead. The transform is of
// the caller's image in both cases, and the limits are those of its header. Works on the calling
// thread, which holds nothing of the budget; the result is not of the budget. Thread-safe. `spec`
// passes CheckPreprocessSpec. `durations` may be null. Errors: those of ProbeImage and DecodeImage;
// RESOURCE_EXHAUSTED image.too_large_to_decode where the whole budget would not do if the file came
// in pieces (whether it does is chance); DEADLINE_EXCEEDED queue.expired where the memory was not
// to be had in time, CANCELLED queue.cancelled where the request was cancelled meanwhile;
// UNAVAILABLE server.out_of_memory.
absl::StatusOr<ResizedImage> DecodeAndResize(const ScatteredBytes& file, const PreprocessSpec& spec,
                                             const ImagingOptions& options,
                                             const ImagingResources& resources,
                                             ImageDurations* durations = nullptr);

// An image's pixels, upright, and what they take of the budget.
struct DecodedImage {
  RgbImage pixels;
  MemoryBudget::Hold memory;
};

// Decodes alone, whole whatever a model's fast_decode, with DecodeAndResize's contract.
// `further_bytes`: that its caller will take for an image with such a header, held with the rest.
absl::StatusOr<DecodedImage> DecodeUpright(
    const ScatteredBytes& file, const ImagingOptions& options, const ImagingResources& resources,
    absl::FunctionRef<int64_t(const ImageInfo& info)> further_bytes);

// As DecodeAndResize, from 8-bit RGB [height, width, 3], under the same limits on sides and pixels.
// An image that already has the model's size, with nothing to cut off, is copied. INVALID_ARGUMENT
// image.bad_size where `rgb` has another number of bytes, or the limits' reasons.
absl::StatusOr<ResizedImage> ResizeRgb(const ScatteredBytes& rgb, int64_t height, int64_t width,
                                       const PreprocessSpec& spec, const ImageLimits& limits,
                                       const ImagingResources& resources,
                                       ImageDurations* durations = nullptr);

}  // namespace fovea
