// Whether anybody still waits for what is being made.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace fovea {

// Asked between pieces of long work, none of which takes much longer than a pass over one picture:
// an error, CANCELLED or DEADLINE_EXCEEDED, ends the work, which then gives that error.
using StillWanted = absl::FunctionRef<absl::Status()>;

// For work that nobody ends.
inline absl::Status AlwaysWanted() { return absl::OkStatus(); }

}  // namespace fovea
