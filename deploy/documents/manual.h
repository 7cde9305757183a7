// Manual pages, in the macros of man(7).
#pragma once

#include <string>

#include "deploy/documents/command.h"

namespace fovea {

// The page of `command` with a section for each of its own commands. `section`: 1 for users'
// programs, 8 for servers. `see_also`: other pages, as "fovea(1)".
std::string ManualPage(const Command& command, int section, const std::string& version,
                       const std::string& see_also);

}  // namespace fovea
