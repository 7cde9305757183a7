// Checks that several messages' fields share. What fails is INVALID_ARGUMENT with the reason of its
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"

namespace fovea {

inline absl::Status CheckLength(std::string_view reason, std::string_view what, size_t bytes,
                                size_t most) {
  if (bytes <= most) return absl::OkStatus();
  return InvalidArgument(reason, std::string(what) + " is too long");
}

// 0 stands for `usual`.
inline absl::StatusOr<int> NumberOr(std::string_view reason, std::string_view what, int32_t value,
                                    int usual) {
  if (value < 0) return InvalidArgument(reason, std::string(what) + " is below zero");
  return value == 0 ? usual : value;
}

}  // namespace fovea
