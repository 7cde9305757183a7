// What a command line takes, in plain data: what manual pages and completion are written from.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fovea {

struct Flag {
  std::vector<std::string> names;    // "--top-k", "-k": the long ones first
  std::string value;                 // of what kind: "N"; empty: it takes none
  std::vector<std::string> choices;  // the values there are; empty: any
  bool names_files = false;          // its value is a file or a folder
  std::string text, fallback, environment_variable;
};

struct Command {
  std::string name, text;
  std::string footer;  // examples and exit codes, as --help ends
  std::vector<Flag> flags;
  std::vector<Flag> arguments;  // without dashes: names holds "FILE" alone
  std::vector<Command> commands;
};

Command Describe(const CLI::App& app);

}  // namespace fovea
