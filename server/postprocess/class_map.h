// From logits on a coarse map to a class for each pixel of the caller's picture.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/image_transform.h"
#include "server/postprocess/still_wanted.h"

namespace fovea {

// Logits of one image at each place of a map over the model's input.
struct LogitMap {
  std::span<const float> logits;  // [classes, height, width], finite
  int64_t classes = 0, height = 0, width = 0;
};

struct ClassMap {
  std::vector<uint16_t> classes;    // [source_height, source_width]
  std::vector<uint8_t> confidence;  // likewise, 255 times the softmax of that class; or empty
};

// The class with the largest logit at the middle of each pixel of the picture, logits being
// interpolated bilinearly between the places' middles, as torch's interpolate does without
// align_corners. The first of equals. At most 65,536 classes. Throws std::bad_alloc.
//   `wanted` is asked before each row, and inside of one where there is much to compute.
//   Where a class is the largest at all four places around, it is so between them: only pixels at
// borders of classes are computed, unless the confidence is asked for.
absl::StatusOr<ClassMap> MapClasses(const LogitMap& map, const ImageTransform& seen,
                                    bool confidence, StillWanted wanted = AlwaysWanted);

// What that takes besides the logits, of a picture of so many pixels.
int64_t ClassMapBytes(const LogitMap& map, int64_t pixels, bool confidence);

}  // namespace fovea
