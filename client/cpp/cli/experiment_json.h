// What `fovea experiment` prints with --json: the names of proto/fovea/v1/experiment.proto, as
// GET /v1/experiments/NAME answers it. What is absent is left out; infinity is "Infinity".
#pragma once

#include <string>
#include <vector>

#include "client/cpp/experiment.h"

namespace fovea::client {

std::string ExperimentJson(const Experiment& experiment);
std::string ExperimentJsonLine(const Experiment& experiment);  // the same in one line
std::string ExperimentsJson(const std::vector<Experiment>& experiments);

}  // namespace fovea::client
