// COCO's compressed run lengths, as a server writes them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea::client {

// The lengths of runs outside and inside of a mask in turn, column by column (cocoapi, maskApi.c,
// rleFrString). INVALID_ARGUMENT: no run lengths, or none that fill `pixels` pixels.
absl::StatusOr<std::vector<int64_t>> ReadRunLengths(std::string_view text, int64_t pixels);

}  // namespace fovea::client
