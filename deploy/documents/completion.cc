#include "deploy/documents/completion.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace fovea {
namespace {

std::string Identifier(const std::string& name) {
  return "_" + absl::StrReplaceAll(name, {{"-", "_"}});
}

std::vector<std::string> NamesOf(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  return names;
}

// The command's own flags, and those of `root`, which are good behind every command.
std::vector<Flag> FlagsBehind(const Command& root, const Command& command) {
  std::vector<Flag> flags = command.flags;
  for (const Flag& flag : root.flags) {
    const auto same = [&](const Flag& own) { return own.names[0] == flag.names[0]; };
    if (std::ranges::none_of(flags, same)) flags.push_back(flag);
  }
  return flags;
}

bool ArgumentsAreFiles(const Command& command) {
  return std::ranges::any_of(command.arguments, &Flag::names_files);
}

// In single quotes of a shell.
std::string Quoted(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"'", "'\\''"}}) + "'";
}

// What is offered after `flags`, and in place of a flag or an argument, as branches of bash.
std::string BashBranches(const std::string& command, const std::vector<Flag>& flags,
                         const std::vector<std::string>& words, bool files) {
  std::string values;
  std::vector<std::string> offered = words;
  for (const Flag& flag : flags) {
    offered.insert(offered.end(), flag.names.begin(), flag.names.end());
    if (flag.value.empty()) continue;
    std::string reply;
    if (!flag.choices.empty()) {
      reply = absl::StrCat("COMPREPLY=($(compgen -W ", Quoted(absl::StrJoin(flag.choices, " ")),
                           " -- \"$word\"))");
    } else {
      reply = flag.names_files ? "COMPREPLY=($(compgen -f -- \"$word\"))" : "COMPREPLY=()";
    }
    absl::StrAppend(&values, "        ", absl::StrJoin(flag.names, "|"), ") ", reply,
                    "; return ;;\n");
  }
  return absl::StrCat(
      "    ", Quoted(command), ")\n      case $before in\n", values,
      "      esac\n      COMPREPLY=($(compgen -W ", Quoted(absl::StrJoin(offered, " ")),
      " -- \"$word\"))\n",
      files ? "      [[ $word == -* ]] || COMPREPLY=($(compgen -f -- \"$word\"))\n" : "",
      "      ;;\n");
}

std::string FishLine(const std::string& program, const std::string& condition, const Flag& flag) {
  std::string line = absl::StrCat("complete -c ", program, condition);
  for (const std::string& name : flag.names) {
    absl::StrAppend(&line, name.rfind("--", 0) == 0 ? " -l " : " -s ",
                    name.substr(name.find_first_not_of('-')));
  }
  if (!flag.value.empty()) absl::StrAppend(&line, flag.names_files ? " -r -F" : " -x");
  if (!flag.choices.empty()) {
    absl::StrAppend(&line, " -a ", Quoted(absl::StrJoin(flag.choices, " ")));
  }
  // In single quotes of fish a backslash is the escape.
  return absl::StrCat(line, " -d '", absl::StrReplaceAll(flag.text, {{"\\", "\\\\"}, {"'", "\\'"}}),
                      "'\n");
}

// A specification of zsh's _arguments.
std::string ZshArgument(const Flag& flag) {
  const std::string text =
      absl::StrReplaceAll(flag.text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
  std::string value;
  if (!flag.value.empty()) {
    const std::string action = flag.names_files ? "_files"
                               : flag.choices.empty()
                                   ? " "
                                   : "(" + absl::StrJoin(flag.choices, " ") + ")";
    value = absl::StrCat(":", flag.value, ":", action);
  }
  std::string lines;
  for (const std::string& name : flag.names) {
    absl::StrAppend(&lines, " \\\n        ",
                    Quoted(absl::StrCat("*", name, "[", text, "]", value)));
  }
  return lines;
}

std::string ZshArguments(const std::vector<Flag>& flags, bool files) {
  std::string lines = "_arguments -s";
  for (const Flag& flag : flags) absl::StrAppend(&lines, ZshArgument(flag));
  if (files) absl::StrAppend(&lines, " \\\n        '*:file:_files'");
  return lines;
}

}  // namespace

std::string BashCompletion(const Command& command) {
  const std::string function = Identifier(command.name);
  std::string branches =
      BashBranches("", command.flags, NamesOf(command.commands), ArgumentsAreFiles(command));
  for (const Command& sub : command.commands) {
    absl::StrAppend(&branches,
                    BashBranches(sub.name, FlagsBehind(command, sub), {}, ArgumentsAreFiles(sub)));
  }
  std::string find_command;
  if (!command.commands.empty()) {
    find_command = absl::StrCat(
        "  for earlier in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case $earlier in\n      ",
        absl::StrJoin(NamesOf(command.commands), "|"),
        ") command=$earlier; break ;;\n    esac\n  done\n");
  }
  return absl::StrCat("# Completion of ", command.name, " in bash.\n", function,
                      "() {\n  local word=${COMP_WORDS[COMP_CWORD]} "
                      "before=${COMP_WORDS[COMP_CWORD-1]} command='' earlier\n",
                      find_command, "  case $command in\n", branches,
                      "  esac\n}\ncomplete -o filenames -F ", function, " ", command.name, "\n");
}

std::string ZshCompletion(const Command& command) {
  std::string script =
      absl::StrCat("#compdef ", command.name, "\n# Completion of ", command.name, " in zsh.\n");
  if (command.commands.empty()) {
    return absl::StrCat(script, ZshArguments(command.flags, ArgumentsAreFiles(command)), "\n");
  }
  absl::StrAppend(&script, "local -a commands=(\n");
  std::string branches;
  for (const Command& sub : command.commands) {
    absl::StrAppend(&script, "  ",
                    Quoted(sub.name + ":" + absl::StrReplaceAll(sub.text, {{":", "\\:"}})), "\n");
    absl::StrAppend(&branches, "    ", sub.name, ")\n      ",
                    ZshArguments(FlagsBehind(command, sub), ArgumentsAreFiles(sub)),
                    "\n      ;;\n");
  }
  return absl::StrCat(
      script,
      ")\nlocal earlier command\nfor earlier in ${words[2,CURRENT-1]}; do\n"
      "  if (( ${commands[(I)$earlier:*]} )); then command=$earlier; break; fi\ndone\n"
      "case $command in\n    '')\n      ",
      ZshArguments(command.flags, false),
      " \\\n        '*:command:{ _describe command commands }'\n      ;;\n", branches, "esac\n");
}

std::string FishCompletion(const Command& command) {
  std::string script = absl::StrCat("# Completion of ", command.name, " in fish.\n");
  if (!ArgumentsAreFiles(command)) absl::StrAppend(&script, "complete -c ", command.name, " -f\n");
  for (const Flag& flag : command.flags) absl::StrAppend(&script, FishLine(command.name, "", flag));
  for (const Command& sub : command.commands) {
    absl::StrAppend(&script, "complete -c ", command.name, " -n __fish_use_subcommand -a ",
                    sub.name, " -d '",
                    absl::StrReplaceAll(sub.text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'\n");
    const std::string condition = absl::StrCat(" -n '__fish_seen_subcommand_from ", sub.name, "'");
    if (ArgumentsAreFiles(sub)) {
      absl::StrAppend(&script, "complete -c ", command.name, condition, " -F\n");
    }
    for (const Flag& flag : sub.flags) {
      absl::StrAppend(&script, FishLine(command.name, condition, flag));
    }
  }
  return script;
}

}  // namespace fovea
