// What fovea.v1's messages of sweeps say, in core's types and back.
#pragma once

#include "absl/status/statusor.h"
#include "proto/fovea/v1/comparison.pb.h"
#include "server/core/sweep.h"

namespace fovea {

// The message's image is taken out of it. INVALID_ARGUMENT: no axis, a number below zero, a text
// that is too long. What is beyond a bound is SweepRunner's to say.
absl::StatusOr<SweepRequest> ReadSweepRequest(v1::SweepRequest& message);

void FillSweep(const Sweep& sweep, v1::Sweep* message);

}  // namespace fovea
