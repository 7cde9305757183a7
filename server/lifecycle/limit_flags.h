// The limits that an operator may turn, each of them one line: its flag, its bounds and what it
// holds off. The command line, the config file, --help, the manual page, completion and the table
// of docs/operations/README.md follow from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/lifecycle/options.h"

namespace fovea {

struct LimitFlag {
  const char* group;              // of --help
  const char* flag;               // "--max-message"
  int64_t ServerOptions::*value;  // where it goes; its default is what stands there
  int64_t least, most;            // both are taken
  const char* unit;               // of all these numbers: "MiB"; "" where it counts things
  const char* text;               // what it bounds, and when to turn it
  const char* never = "";         // what 0 means; "" where it is a number like the others
};

std::span<const LimitFlag> LimitFlags();

// What --help says of it, with the unit.
std::string HelpOf(const LimitFlag& limit);

}  // namespace fovea
