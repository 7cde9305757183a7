#include "client/cpp/cli/console.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cpp/cli/text.h"
#include "client/cpp/client.h"

namespace fovea::client {

namespace {

// As a shell takes it for one word.
std::string Quoted(const std::string& word) {
  constexpr char kPlain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=@%+";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace

std::string CommandText(const std::vector<std::string>& arguments) {
  constexpr char kSecret[] = "--api-key";
  std::string text = "fovea";
  bool hide = false;
  for (const std::string& argument : arguments) {
    const bool joined = argument.starts_with(absl::StrCat(kSecret, "="));
    absl::StrAppend(&text, " ",
                    hide     ? "..."
                    : joined ? absl::StrCat(kSecret, "=...")
                             : Quoted(argument));
    hide = argument == kSecret;
  }
  return text;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kOk;
  return IsUnreachable(status) ? kUnreachable : kRequestFailed;
}

ExitCode Report(const Console& console, const absl::Status& status, const std::string& subject) {
  std::string sentence(status.message());
  if (sentence.empty()) sentence = absl::StatusCodeToString(status.code());
  console.err << "fovea: " << (subject.empty() ? "" : Printable(subject) + ": ")
              << Printable(sentence) << '\n';
  return ExitCodeOf(status);
}

ExitCode ReportUsage(const Console& console, const std::string& sentence) {
  console.err << "fovea: " << Printable(sentence) << '\n';
  return kUsage;
}

}  // namespace fovea::client
