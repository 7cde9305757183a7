// Completion of a command line in the shells that people use.
#pragma once

#include <string>

#include "deploy/documents/command.h"

namespace fovea {

// Each completes commands, flags, the values of flags that have a choice, and files where a flag or
// an argument names some.
std::string BashCompletion(const Command& command);
std::string ZshCompletion(const Command& command);
std::string FishCompletion(const Command& command);

}  // namespace fovea
