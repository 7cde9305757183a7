#include "client/cpp/cli/console.h"

#include "client/cpp/cli/text.h"
#include "client/cpp/client.h"

namespace fovea::client {

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
