// What is said to a caller who has cancelled, where it is still listened to.
#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace fovea {

// Its reason is "WHAT.cancelled".
inline absl::Status CallerCancelled(std::string_view what) {
  return Cancelled(absl::StrCat(std::string(what), ".cancelled"), "the caller cancelled the call");
}

}  // namespace fovea
