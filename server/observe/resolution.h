// The size of images as a label of metrics: one number of a short list, so that it is bounded and
// can be the axis of a plot.
#pragma once

#include <string_view>

#include "server/core/image_size.h"

namespace fovea {

// The side in pixels of a square with as many pixels as an image of that size, or the next larger
// one of a fixed list from "32" to "4096"; "larger" beyond. 224x224: "224"; 800x1344: "1152".
std::string_view ResolutionLabel(const ImageSize& size);

}  // namespace fovea
