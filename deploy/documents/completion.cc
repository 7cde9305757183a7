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

// A command behind the program's name, and those behind it: "experiment", "experiment start".
struct Path {
  std::string words;
  const Command* command;
};

void AddPaths(const std::vector<Command>& commands, const std::string& before,
              std::vector<Path>& paths) {
  for (const Command& command : commands) {
    const std::string words = before + command.name;
    paths.push_back({words, &command});
    AddPaths(command.commands, words + " ", paths);
  }
}

std::vector<Path> PathsOf(const Command& command) {
  std::vector<Path> paths;
  AddPaths(command.commands, "", paths);
  return paths;
}

// Of a shell's `case`: 'one'|'one two'.
std::string Pattern(const std::vector<Path>& paths) {
  return absl::StrJoin(paths, "|", [](std::string* text, const Path& path) {
    absl::StrAppend(text, "'", path.words, "'");
  });
}

// The statements of bash and zsh alike that put the words of the command before the cursor together
// in `command`. `words`: how the shell writes those before the cursor.
std::string FindCommand(const std::vector<Path>& paths, const std::string& words) {
  if (paths.empty()) return "";
  return absl::StrCat(
      "  for earlier in ", words, "; do\n    case \"${command:+$command }$earlier\" ", "in\n      ",
      Pattern(paths), ") command=\"${command:+$command }$earlier\" ;;\n    esac\n  done\n");
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

// What is offered behind `words`, which are `command`'s.
std::string ZshBranch(const std::string& words, const Command& command,
                      const std::vector<Flag>& flags) {
  std::string branch = absl::StrCat("    ", Quoted(words), ")\n");
  const bool has_commands = !command.commands.empty();
  if (has_commands) {
    absl::StrAppend(&branch, "      commands=(\n");
    for (const Command& sub : command.commands) {
      absl::StrAppend(&branch, "        ",
                      Quoted(sub.name + ":" + absl::StrReplaceAll(sub.text, {{":", "\\:"}})), "\n");
    }
    absl::StrAppend(&branch, "      )\n");
  }
  return absl::StrCat(branch, "      ", ZshArguments(flags, ArgumentsAreFiles(command)),
                      has_commands ? " \\\n        '*:command:{ _describe command commands }'" : "",
                      "\n      ;;\n");
}

// Of fish: a command, flags and words of it. `condition`: behind which words they stand; empty:
// behind none.
std::string FishCommand(const std::string& program, const Command& command,
                        const std::string& condition) {
  const std::string begin = absl::StrCat("complete -c ", program);
  const std::string behind = condition.empty() ? "" : absl::StrCat(" -n ", Quoted(condition));
  std::string lines;
  for (const Flag& flag : command.flags) {
    absl::StrAppend(&lines, FishLine(program, behind, flag));
  }
  if (!condition.empty() && ArgumentsAreFiles(command)) {
    absl::StrAppend(&lines, begin, behind, " -F\n");
  }
  const std::string names = absl::StrJoin(NamesOf(command.commands), " ");
  for (const Command& sub : command.commands) {
    const std::string first =
        condition.empty()
            ? "__fish_use_subcommand"
            : Quoted(absl::StrCat(condition, "; and not __fish_seen_subcommand_from ", names));
    absl::StrAppend(&lines, begin, " -n ", first, " -a ", sub.name, " -d '",
                    absl::StrReplaceAll(sub.text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'\n",
                    FishCommand(program, sub,
                                absl::StrCat(condition, condition.empty() ? "" : "; and ",
                                             "__fish_seen_subcommand_from ", sub.name)));
  }
  return lines;
}

}  // namespace

std::string BashCompletion(const Command& command) {
  const std::string function = Identifier(command.name);
  std::string branches =
      BashBranches("", command.flags, NamesOf(command.commands), ArgumentsAreFiles(command));
  const std::vector<Path> paths = PathsOf(command);
  for (const auto& [words, sub] : paths) {
    absl::StrAppend(&branches, BashBranches(words, FlagsBehind(command, *sub),
                                            NamesOf(sub->commands), ArgumentsAreFiles(*sub)));
  }
  return absl::StrCat("# Completion of ", command.name, " in bash.\n", function,
                      "() {\n  local word=${COMP_WORDS[COMP_CWORD]} "
                      "before=${COMP_WORDS[COMP_CWORD-1]} command='' earlier\n",
                      FindCommand(paths, "\"${COMP_WORDS[@]:1:COMP_CWORD-1}\""),
                      "  case $command in\n", branches, "  esac\n}\ncomplete -o filenames -F ",
                      function, " ", command.name, "\n");
}

std::string ZshCompletion(const Command& command) {
  std::string script =
      absl::StrCat("#compdef ", command.name, "\n# Completion of ", command.name, " in zsh.\n");
  if (command.commands.empty()) {
    return absl::StrCat(script, ZshArguments(command.flags, ArgumentsAreFiles(command)), "\n");
  }
  const std::vector<Path> paths = PathsOf(command);
  absl::StrAppend(&script, "local -a commands\nlocal earlier command\n",
                  FindCommand(paths, "${words[2,CURRENT-1]}"), "case $command in\n",
                  ZshBranch("", command, command.flags));
  for (const auto& [words, sub] : paths) {
    absl::StrAppend(&script, ZshBranch(words, *sub, FlagsBehind(command, *sub)));
  }
  return absl::StrCat(script, "esac\n");
}

std::string FishCompletion(const Command& command) {
  std::string script = absl::StrCat("# Completion of ", command.name, " in fish.\n");
  if (!ArgumentsAreFiles(command)) absl::StrAppend(&script, "complete -c ", command.name, " -f\n");
  absl::StrAppend(&script, FishCommand(command.name, command, ""));
  return script;
}

}  // namespace fovea
