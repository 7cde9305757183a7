// A WebP file.
#include "tests/fuzz/image_file.h"

namespace fovea {

FOVEA_FUZZ_TARGET(webp, input) { ProbeAndDecode(input.rest(), "RIFF"); }

}  // namespace fovea
