// Turns a picture upright.
#pragma once

#include "server/imaging/image.h"

namespace fovea {

// `stored` as it is meant to be seen, by EXIF's orientation 1 to 8 (which side of the picture the
// first row and the first column are). 5 to 8 swap height and width. Throws std::bad_alloc.
RgbImage Upright(const RgbImage& stored, int orientation);

}  // namespace fovea
