// What `fovea sweep` prints with --json and --csv: the names of proto/fovea/v1/comparison.proto, as
// POST /v1/sweep answers it, and beside them the `command`. What is absent is left out.
#pragma once

#include <string>

#include "client/cpp/sweep.h"

namespace fovea::client {

std::string SweepJson(const Sweep& sweep, const std::string& command);

// A row for each point. A curve's exponents stand in each of its rows, and so does what all curves
// share.
std::string SweepCsv(const Sweep& sweep, const std::string& command);

}  // namespace fovea::client
