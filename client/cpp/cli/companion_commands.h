// The commands of `fovea` that other programs carry out: import, evaluate, check, train, kernels,
// zoo.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "client/cpp/cli/console.h"

namespace fovea::client {

bool IsCompanionCommand(const std::string& name);

// The companion of that name: what stands behind the command is the program's own.
void AddCompanionCommand(CLI::App& app, const std::string& name);

// Becomes the program of `command`; `server` is the one that --server names. Returns, with an exit
// code, only where that fails.
int RunCompanionCommand(const CLI::App& command, const std::string& server, const Console& console);

}  // namespace fovea::client
