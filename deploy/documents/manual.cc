#include "deploy/documents/manual.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace fovea {
namespace {

// Text as it is read: a backslash, a dash and a dot or quote at the beginning of a line mean
// something to roff.
std::string Roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else if ((c == '.' || c == '\'') && (escaped.empty() || escaped.back() == '\n')) {
      escaped += std::string("\\&") + c;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string EntryOf(const Flag& flag) {
  std::vector<std::string> names;
  for (const std::string& name : flag.names) names.push_back("\\fB" + Roff(name) + "\\fR");
  std::string entry = absl::StrCat(".TP\n", absl::StrJoin(names, ", "));
  const bool dashed = flag.names[0][0] == '-';
  if (dashed && !flag.value.empty()) absl::StrAppend(&entry, " \\fI", Roff(flag.value), "\\fR");
  absl::StrAppend(&entry, "\n", Roff(flag.text), ".\n");
  if (!flag.choices.empty()) {
    absl::StrAppend(&entry, "One of: ", Roff(absl::StrJoin(flag.choices, ", ")), ".\n");
  }
  if (!flag.fallback.empty()) absl::StrAppend(&entry, "Default: ", Roff(flag.fallback), ".\n");
  if (!flag.environment_variable.empty()) {
    absl::StrAppend(&entry, "Environment: \\fB", Roff(flag.environment_variable), "\\fR.\n");
  }
  return entry;
}

std::string EntriesOf(const Command& command) {
  std::string entries;
  for (const Flag& flag : command.arguments) absl::StrAppend(&entries, EntryOf(flag));
  for (const Flag& flag : command.flags) absl::StrAppend(&entries, EntryOf(flag));
  return entries;
}

// As it stands, line by line.
std::string Verbatim(const std::string& text) {
  if (text.empty()) return "";
  return absl::StrCat(".PP\n.nf\n", Roff(std::string(absl::StripTrailingAsciiWhitespace(text))),
                      "\n.fi\n");
}

// A section for each command, and for those below it. `before`: what is written before their names.
std::string SectionsOf(const std::vector<Command>& commands, const std::string& before) {
  std::string sections;
  for (const Command& command : commands) {
    const std::string name = absl::StrCat(before, " ", command.name);
    absl::StrAppend(&sections, ".SH \"", absl::AsciiStrToUpper(name), "\"\n", Roff(command.text),
                    ".\n", EntriesOf(command), Verbatim(command.footer),
                    SectionsOf(command.commands, name));
  }
  return sections;
}

}  // namespace

std::string ManualPage(const Command& command, int section, const std::string& version,
                       const std::string& see_also) {
  const std::vector<std::string> lines = absl::StrSplit(command.text, '\n');
  std::string first = lines[0];
  // "fovea-server: serves ..." is the name and what stands behind it.
  const std::string named = command.name + ": ";
  if (first.rfind(named, 0) == 0) first = first.substr(named.size());
  std::string page = absl::StrCat(
      ".TH \"", absl::AsciiStrToUpper(command.name), "\" \"", section, "\" \"\" \"fovea ", version,
      "\" \"Fovea\"\n.SH NAME\n", Roff(command.name), " \\- ", Roff(first), "\n.SH SYNOPSIS\n\\fB",
      Roff(command.name), "\\fR [\\fIOPTION\\fR]...",
      command.commands.empty() ? "" : " \\fICOMMAND\\fR ...", "\n.SH DESCRIPTION\n");
  for (const std::string& line : lines) absl::StrAppend(&page, Roff(line), "\n");
  absl::StrAppend(&page, ".SH OPTIONS\n", EntriesOf(command),
                  SectionsOf(command.commands, command.name));
  if (!command.footer.empty()) {
    absl::StrAppend(&page, ".SH EXAMPLES\n", Verbatim(command.footer));
  }
  absl::StrAppend(&page, ".SH \"SEE ALSO\"\n", Roff(see_also), "\n");
  return page;
}

}  // namespace fovea
