// A BMP file.
#include "tests/fuzz/image_file.h"

namespace fovea {

FOVEA_FUZZ_TARGET(bmp, input) { ProbeAndDecode(input.rest(), "BM"); }

}  // namespace fovea
