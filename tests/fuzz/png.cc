// A PNG file.
#include "tests/fuzz/image_file.h"

namespace fovea {

FOVEA_FUZZ_TARGET(png, input) { ProbeAndDecode(input.rest(), "\x89PNG\r\n\x1a\n"); }

}  // namespace fovea
