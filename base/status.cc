#include "base/status.h"

#include "absl/strings/cord.h"

namespace fovea {
namespace {
constexpr char kReasonUrl[] = "fovea.dev/reason";
}

absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message) {
  absl::Status status(code, absl::string_view(message.data(), message.size()));
  status.SetPayload(kReasonUrl, absl::Cord(absl::string_view(reason.data(), reason.size())));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (auto reason = status.GetPayload(kReasonUrl)) return std::string(*reason);
  return "";
}

}  // namespace fovea
