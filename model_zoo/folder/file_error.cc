#include "model_zoo/folder/file_error.h"

#include <charconv>

#include "absl/strings/cord.h"
#include "base/status.h"

namespace fovea {
namespace {
constexpr char kLocationUrl[] = "fovea.dev/location";  // "LINE FILE"
}

absl::Status FileError(std::string_view reason, std::string_view file, int line,
                       std::string_view text) {
  std::string message(file);
  if (line > 0) message.append(":").append(std::to_string(line));
  absl::Status status = FailedPrecondition(reason, message.append(": ").append(text));
  status.SetPayload(kLocationUrl, absl::Cord(std::to_string(line).append(" ").append(file)));
  return status;
}

FileLocation LocationOf(const absl::Status& status) {
  FileLocation location;
  const auto payload = status.GetPayload(kLocationUrl);
  if (!payload) return location;
  const std::string text(*payload);
  const size_t space = text.find(' ');
  std::from_chars(text.data(), text.data() + space, location.line);
  location.file = text.substr(space + 1);
  return location;
}

}  // namespace fovea
