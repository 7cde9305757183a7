// A GIF file.
#include "tests/fuzz/image_file.h"

namespace fovea {

FOVEA_FUZZ_TARGET(gif, input) { ProbeAndDecode(input.rest(), "GIF89a"); }

}  // namespace fovea
