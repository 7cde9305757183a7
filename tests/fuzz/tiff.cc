// A TIFF file, in either byte order.
#include "tests/fuzz/image_file.h"

namespace fovea {

FOVEA_FUZZ_TARGET(tiff, input) {
  const std::string_view file = input.rest();
  ProbeAndDecode(
      file, file.starts_with("MM") ? std::string_view("MM\0*", 4) : std::string_view("II*\0", 4));
}

}  // namespace fovea
