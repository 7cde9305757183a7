#include "deploy/documents/command.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace fovea {
namespace {

// CLI11 appends what a value is checked for to its kind: "TEXT:{off,errors,all}". A kind of our own
// may have a colon in it: "HOST:PORT".
std::string Kind(const std::string& type) {
  return absl::StartsWith(type, "HOST:") ? type : type.substr(0, type.find(':'));
}

std::vector<std::string> Choices(const std::string& type) {
  const size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
}

bool NamesFiles(const std::string& kind) {
  for (const char* files : {"FILE", "FOLDER", "LIST", "PATH"}) {
    if (absl::StartsWith(kind, files)) return true;
  }
  return false;
}

Flag DescribeFlag(const CLI::Option& option) {
  Flag flag{.text = option.get_description(),
            .fallback = option.get_default_str(),
            .environment_variable = option.get_envname()};
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  const std::string type = option.get_type_name();
  if (flag.names.empty()) flag.names.push_back(option.get_single_name());
  if (option.get_expected_max() > 0) {
    flag.value = Kind(type);
    if (flag.value.empty()) flag.value = "VALUE";
  }
  flag.choices = Choices(type);
  flag.names_files = NamesFiles(type) || (option.get_positional() && NamesFiles(flag.names[0]));
  if (flag.value.empty() || flag.fallback == "[]") flag.fallback.clear();
  return flag;
}

}  // namespace

Command Describe(const CLI::App& app) {
  Command command{
      .name = app.get_name(), .text = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    auto& list = option->nonpositional() ? command.flags : command.arguments;
    list.push_back(DescribeFlag(*option));
  }
  // (The null filter: those that were not called, too.)
  for (const CLI::App* sub : app.get_subcommands(nullptr))
    command.commands.push_back(Describe(*sub));
  return command;
}

}  // namespace fovea
