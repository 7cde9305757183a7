// `fovea compare`, `sweep` and `explain`: what their command lines take.
#pragma once

#include <CLI/CLI.hpp>

#include "client/cpp/cli/commands.h"

namespace fovea::client {

void AddCompare(CLI::App& app, CompareOptions& options);
void AddSweep(CLI::App& app, SweepOptions& options);
void AddExplain(CLI::App& app, ExplainOptions& options);

}  // namespace fovea::client
