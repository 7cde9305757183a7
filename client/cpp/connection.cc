#include "client/cpp/connection.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"

namespace fovea::client {
namespace {

constexpr char kUnreachableUrl[] = "fovea.dev/unreachable";
constexpr char kReasonUrl[] = "fovea.dev/reason";
constexpr char kReasonMetadata[] = "fovea-reason";  // of a failed call's trailing metadata

}  // namespace

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachableUrl).has_value();
}

std::string ReasonOf(const absl::Status& status) {
  const auto reason = status.GetPayload(kReasonUrl);
  return reason ? std::string(*reason) : "";
}

absl::Status Unreachable(const std::string& why) {
  absl::Status status = absl::UnavailableError(why);
  status.SetPayload(kUnreachableUrl, absl::Cord());
  return status;
}

absl::Status ServerError(int code, const std::string& message, const std::string& reason) {
  // The two libraries number the codes alike.
  absl::Status error(static_cast<absl::StatusCode>(code), message);
  if (!reason.empty()) error.SetPayload(kReasonUrl, absl::Cord(reason));
  return error;
}

absl::Status AddExperimentKey(const std::string& key, grpc::ClientContext& context) {
  if (key.empty()) return absl::OkStatus();
  // gRPC would end the process at a value that HTTP/2 cannot carry.
  if (!std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    return absl::InvalidArgumentError("the experiment key has more than printable ASCII in it");
  }
  context.AddMetadata("fovea-experiment-key", key);
  return absl::OkStatus();
}

absl::Status Stopped() { return absl::CancelledError("the client was stopped"); }

std::chrono::system_clock::time_point DeadlineIn(absl::Duration timeout) {
  // Far enough to be none, near enough not to overflow.
  return absl::ToChronoTime(absl::Now() + std::min(timeout, absl::Hours(24 * 365)));
}

bool Connection::Begin(grpc::ClientContext& context) {
  if (!api_key_.empty()) context.AddMetadata("authorization", "Bearer " + api_key_);
  std::lock_guard lock(mutex_);
  if (!stopped_) running_.insert(&context);
  return !stopped_;
}

void Connection::End(grpc::ClientContext& context) {
  std::lock_guard lock(mutex_);
  running_.erase(&context);
}

void Connection::Stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

absl::Status Connection::Outcome(const char* what, absl::Duration timeout,
                                 const grpc::Status& status,
                                 const grpc::ClientContext& context) const {
  if (status.ok()) return absl::OkStatus();
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      // A busy server says UNAVAILABLE, and so does gRPC itself without one. Only its own words
      // tell which; the channel's state does not, because a stopping server's last answers come
      // as the connection closes.
      if (context.debug_error_string().find("received from peer") == std::string::npos) {
        return Unreachable(
            absl::StrCat("the connection to ", address_, " broke: has the server stopped?"));
      }
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      // gRPC's own words, where the deadline passed on this side.
      if (status.error_message() == "Deadline Exceeded") {
        return absl::DeadlineExceededError(
            absl::StrCat("no answer within ", absl::FormatDuration(timeout)));
      }
      break;
    case grpc::StatusCode::UNIMPLEMENTED:
      if (status.error_message().empty()) {
        return absl::UnimplementedError(
            absl::StrCat("the server at ", address_, " does not know ", what));
      }
      break;
    default:
      break;
  }
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto reason = metadata.find(kReasonMetadata);
  return ServerError(
      status.error_code(), status.error_message(),
      reason == metadata.end() ? "" : std::string(reason->second.data(), reason->second.size()));
}

}  // namespace fovea::client
