// The one place where an image library's failure becomes a status.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace fovea {

// Runs `decode`, which returns nothing on success and the library's own words on failure, or
// throws. The words go to the log, never into the status.
//
// INVALID_ARGUMENT image.corrupt: the words; the header was sound, so the pixels are not.
// UNAVAILABLE server.out_of_memory: std::bad_alloc, or words while errno says that malloc failed.
// INTERNAL image.codec_failed: any other exception.
absl::Status RunCodec(absl::FunctionRef<std::string()> decode);

}  // namespace fovea
