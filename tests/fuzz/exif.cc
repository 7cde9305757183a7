// EXIF's TIFF structure.
#include "base/exif.h"

#include "tests/fuzz/fuzz_target.h"

namespace fovea {

FOVEA_FUZZ_TARGET(exif, input) {
  const int orientation =
      ExifOrientation(std::as_bytes(std::span(input.rest().data(), input.rest().size())));
  FOVEA_CHECK(orientation >= 1 && orientation <= 8);
}

}  // namespace fovea
