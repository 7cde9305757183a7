// Where a command writes, and how it ends.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace fovea::client {

// The exit codes are part of the command line's contract.
enum ExitCode : int {
  kOk = 0,
  kRequestFailed = 1,
  kUsage = 2,
  kUnreachable = 3,
  kInterrupted = 130,  // as a shell says it
};

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool colour = false;    // `out` is a terminal that shows colours
  bool progress = false;  // `err` is a terminal: long steps show how far they are
  std::string command;    // as it was typed, for what is written of it
};

// The command line of `fovea` with these arguments, for a shell. An API key in it is "...".
std::string CommandText(const std::vector<std::string>& arguments);

ExitCode ExitCodeOf(const absl::Status& status);

// Writes "fovea: [subject: ]sentence" to `err` and returns the exit code for it.
ExitCode Report(const Console& console, const absl::Status& status,
                const std::string& subject = "");

// The same for a command line that cannot be meant.
ExitCode ReportUsage(const Console& console, const std::string& sentence);

}  // namespace fovea::client
