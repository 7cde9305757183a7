// A sweep as plots: in one HTML file that needs no other, and as a picture.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/sweep.h"

namespace fovea::client {

// Pure.
std::string SweepReport(const Sweep& sweep, const std::string& command);

// A PNG file: compute, attention, memory and throughput. RESOURCE_EXHAUSTED: there is not enough
// memory.
absl::StatusOr<std::string> SweepPicture(const Sweep& sweep);

}  // namespace fovea::client
