// COCO's run lengths of a mask.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/core/image_size.h"

namespace fovea {

// Of the pixels of `map` [size.height, size.width] that are `value`, compressed as COCO's tools
// write it ("counts"): column by column, the lengths of runs that are not and that are it in turn,
// each but the first three as its difference from the one before the last, in groups of five bits,
// lowest first, with a sixth bit where more follow, as characters from "0" on (cocoapi,
// maskApi.c, rleToString).
std::string RunLengths(std::span<const uint16_t> map, const ImageSize& size, uint16_t value);

}  // namespace fovea
