// The one place where an image library's failure becomes a status.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace fovea {

// Runs `decode`, which returns an empty text on success and the library's own words on failure, or
// throws.
//   what it returns, or a cv::Exception    INVALID_ARGUMENT image.corrupt: the header was sound, so
//   the pixels are not memory that cannot be had              UNAVAILABLE image.memory any other
//   exception                    INTERNAL image.codec_failed
// The library's words go to the log, never into the status.
absl::Status RunCodec(absl::FunctionRef<std::string()> decode);

}  // namespace fovea
