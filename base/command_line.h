// What the programs say of a command line that CLI11 refuses.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/did_you_mean.h"

namespace fovea {

inline bool IsFlag(const std::string& argument) { return argument.starts_with("-"); }

// "there is no command 'NAME'", with the one that was probably meant, where `app`, which has
// parsed, or the innermost of its commands that were given, takes a command and got another word.
inline std::string UnknownCommand(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  const std::vector<const CLI::App*> commands = command->get_subcommands(/*filter=*/nullptr);
  if (unknown.empty() || IsFlag(unknown.front()) || commands.empty()) return "";
  return absl::StrCat("there is no command '", unknown.front(), "'",
                      DidYouMean(unknown.front(), commands,
                                 [](const CLI::App* below) { return below->get_name(); }));
}

// The sentence of `error`, which app.parse() has thrown, and for the first argument that `app` and
// its commands that were given do not know, the one that was probably meant.
inline std::string RefusalText(const CLI::App& app, const CLI::Error& error) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const auto flag = std::ranges::find_if(unknown, IsFlag);
  if (flag == unknown.end()) {
    const std::string command = UnknownCommand(app);
    return command.empty() ? error.what() : command;
  }
  std::vector<std::string> flags;
  const CLI::App* command = &app;
  while (command != nullptr) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    }
    const std::vector<CLI::App*> given = command->get_subcommands();
    command = given.empty() ? nullptr : given.front();
  }
  const std::string name = flag->substr(0, flag->find('='));
  // A flag that is missing may be the one that is misspelt.
  const bool named = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  return absl::StrCat(error.what(), named ? "" : absl::StrCat("; there is no option '", name, "'"),
                      DidYouMean(name, flags));
}

// For CLI::App::failure_message.
inline std::string RefusalMessage(const CLI::App* app, const CLI::Error& error) {
  return absl::StrCat(RefusalText(*app, error), "\nRun with --help for more information.\n");
}

}  // namespace fovea
