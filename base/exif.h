// The one thing of EXIF that changes pixels.
#pragma once

#include "base/bytes.h"

namespace fovea {

// The orientation, 1 to 8, that the first directory of a TIFF structure names (EXIF 2.32, tag
// 0x0112, a SHORT). 1 where it is absent, out of range, of another type, or where the structure
// makes no sense: bad metadata does not make a bad image. Only the first directory is read and no
// link is followed, so links in a circle do no harm.
int ExifOrientation(Bytes tiff);

}  // namespace fovea
