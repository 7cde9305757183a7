// `fovea experiment`: what its commands take, and which of them was given.
#pragma once

#include <string>

#include "client/cpp/cli/commands.h"

namespace CLI {
class App;
}

namespace fovea::client {

void AddExperimentCommands(CLI::App& app, ExperimentOptions& options);

// `command`: AddExperimentCommands' of a command line that has been parsed.
ExitCode RunExperimentCommand(Client& client, const CLI::App& command,
                              const ExperimentOptions& options, const Console& console);

}  // namespace fovea::client
