// A JPEG file.
#include "tests/fuzz/image_file.h"

namespace fovea {

FOVEA_FUZZ_TARGET(jpeg, input) { ProbeAndDecode(input.rest(), "\xff\xd8\xff"); }

}  // namespace fovea
