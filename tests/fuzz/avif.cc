// An AVIF file.
#include "tests/fuzz/image_file.h"

namespace fovea {

FOVEA_FUZZ_TARGET(avif, input) {
  ProbeAndDecode(input.rest(), std::string_view("\0\0\0\x20"
                                                "ftypavif",
                                                12));
}

}  // namespace fovea
