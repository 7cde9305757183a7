#include "client/cpp/cli/readiness.h"

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/did_you_mean.h"
#include "client/cpp/cli/text.h"

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
  std::vector<std::string> names;
  for (const ModelInfo& entry : *index) {
    names.push_back(entry.name);
    if (entry.name != model.name) continue;
    known = true;
    if (entry.ready()) return "";
    // A version's own reason before that of another.
    if (reason.empty() || entry.version == model.version) {
      reason = entry.reason.empty() ? "it is " + absl::AsciiStrToLower(entry.state) : entry.reason;
    }
  }
  if (known) return reason;
  return absl::StrCat("the repository has no model of that name (see fovea models)",
                      DidYouMean(model.name, names));
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

absl::Status WhyNotReady(Client& client, std::span<const Variant> variants,
                         const absl::Status& error, const CallOptions& call) {
  for (const Variant& variant : variants) {
    absl::Status full = WhyNotReady(client, variant.model, error, call);
    if (full != error) return full;
  }
  return error;
}

std::string WhyNotReady(Client& client, const CallOptions& call) {
  constexpr int kNamed = 8;
  const auto index = client.Index(call);
  std::string why;
  int waited_for = 0;
  if (index.ok()) {
    for (const ModelInfo& entry : *index) {
      const bool loading = entry.state == "LOADING";
      if (entry.ready() || (!loading && (entry.reason.empty() || entry.reason == "unloaded"))) {
        continue;
      }
      if (++waited_for > kNamed) continue;
      absl::StrAppend(&why, why.empty() ? "" : "; ", Printable(entry.name), ": ",
                      loading ? "it is being loaded" : Printable(entry.reason));
    }
  }
  if (waited_for > kNamed) absl::StrAppend(&why, "; and ", waited_for - kNamed, " more");
  return why.empty() ? "it is starting or stopping" : why;
}

}  // namespace fovea::client
