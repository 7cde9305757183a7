#include "client/cpp/cli/readiness.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace fovea::client {
namespace {

// A server that gives a reason has said what is UNAVAILABLE, for example its queue.
bool MayBeTheModel(const absl::Status& error) {
  if (absl::IsNotFound(error)) return true;
  return absl::IsUnavailable(error) && !IsUnreachable(error) && ReasonOf(error).empty();
}

// Empty where the model is ready, and where the server does not tell.
std::string ReasonInIndex(Client& client, const ModelId& model, const CallOptions& call) {
  const auto index = client.Index(call);
  if (!index.ok()) return "";
  bool known = false;
  std::string reason;
  for (const ModelInfo& entry : *index) {
    if (entry.name != model.name) continue;
    known = true;
    if (entry.ready()) return "";
    // A version's own reason before that of another.
    if (reason.empty() || entry.version == model.version) {
      reason = entry.reason.empty() ? "it is " + absl::AsciiStrToLower(entry.state) : entry.reason;
    }
  }
  return known ? reason : "the repository has no model of that name (see fovea models)";
}

}  // namespace

absl::Status WhyNotReady(Client& client, const ModelId& model, const absl::Status& error,
                         const CallOptions& call) {
  if (!MayBeTheModel(error)) return error;
  const std::string reason = ReasonInIndex(client, model, call);
  if (reason.empty() || absl::StrContains(error.message(), reason)) return error;
  absl::Status full(error.code(), absl::StrCat(error.message(), ": ", reason));
  error.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { full.SetPayload(url, payload); });
  return full;
}

}  // namespace fovea::client
