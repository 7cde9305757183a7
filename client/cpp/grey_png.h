// A picture in grey, from a PNG file as a server writes it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea::client {

// Its levels, [height, width]. INVALID_ARGUMENT: no PNG, one that is not in grey of 8 bits, or one
// of another size.
absl::StatusOr<std::vector<uint8_t>> ReadGreyPng(std::string_view file, int64_t height,
                                                 int64_t width);

}  // namespace fovea::client
