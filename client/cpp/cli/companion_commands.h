// The commands of `fovea` that other programs carry out: import, evaluate, check, train, kernels,
// quantize, zoo.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "client/cpp/cli/companion.h"
#include "client/cpp/cli/console.h"
#include "client/cpp/cli/server_access.h"

namespace fovea::client {

bool IsCompanionCommand(const std::string& name);

// The companion of that name: what stands behind the command is the program's own.
void AddCompanionCommand(CLI::App& app, const std::string& name);

// Becomes the program of `command`. One that asks a server is told `server`: its address and files
// as flags, the API key in the environment, which others on this machine do not see. Returns, with
// an exit code, only where that fails.
int RunCompanionCommand(const CLI::App& command, const ServerAccess& server,
                        const Console& console);

// What the companion of that name prints, asked of the same server with these arguments, as
// AskCompanion has it.
CompanionOutput AskCompanionCommand(const std::string& name, std::vector<std::string> arguments,
                                    const ServerAccess& server, const Console& console);

}  // namespace fovea::client
