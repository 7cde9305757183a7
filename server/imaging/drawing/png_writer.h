// Pixels to a PNG file's bytes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/imaging/image.h"

namespace fovea {

// 8-bit RGB. UNAVAILABLE server.out_of_memory, INTERNAL image.codec_failed.
absl::StatusOr<std::string> EncodePng(const RgbImage& image);

}  // namespace fovea
