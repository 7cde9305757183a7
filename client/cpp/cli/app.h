// The command line of `fovea`, from its arguments to its exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/cpp/cli/console.h"

namespace CLI {
class App;
}

namespace fovea::client {

// `arguments` without the program's name. The environment is read: FOVEA_SERVER, PATH.
int RunFovea(const std::vector<std::string>& arguments, const Console& console);

// Calls `visit` with the description of every command and option, for what is written from it.
void VisitCommandLine(const std::function<void(const CLI::App&)>& visit);

}  // namespace fovea::client
