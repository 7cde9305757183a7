// What `fovea sweep` prints with --json: the names of proto/fovea/v1/comparison.proto, as
// POST /v1/sweep answers it. What is absent is left out.
#pragma once

#include <string>

#include "client/cpp/sweep.h"

namespace fovea::client {

std::string SweepJson(const Sweep& sweep);

}  // namespace fovea::client
