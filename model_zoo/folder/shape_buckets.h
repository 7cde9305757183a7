// The sizes that a model runs at whose pictures keep their shape.
#pragma once

#include <cstdint>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea::models {

// A bounded set of sizes for pictures of any shape, the largest first: for each of the common
// formats (1:1, 4:3, 3:2, 2:1, 3:1, 6:1, and longer_side : shorter_side), landscape and portrait,
// the size of such a picture with its sides as Preprocessing says, rounded up to multiples of
// `stride`. A picture of one of these formats is so padded by `stride` at most at each side. One in
// between goes into the next longer format where shorter_side is its limit, and into the next
// shorter one where longer_side is. All are at least 1, and shorter_side <= longer_side.
std::vector<ImageSize> ShapeBuckets(int64_t shorter_side, int64_t longer_side, int64_t stride);

}  // namespace fovea::models
