// The command line of `fovea`, from its arguments to its exit code.
#pragma once

#include <string>
#include <vector>

#include "client/cpp/cli/console.h"

namespace fovea::client {

// `arguments` without the program's name. The environment is read: FOVEA_SERVER, PATH.
int RunFovea(const std::vector<std::string>& arguments, const Console& console);

}  // namespace fovea::client
