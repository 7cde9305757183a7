#include "server/transport/http/http_head.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

size_t CountOf(const http::fields& fields, http::field name) {
  const auto [first, last] = fields.equal_range(name);
  return std::distance(first, last);
}

bool AllDigits(beast::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// What uri-host and port of RFC 9110, section 7.2, may be made of: a name, or an address in
// brackets. Empty where there is no authority.
bool IsHost(beast::string_view text) {
  std::string_view host(text.data(), text.size());
  const auto of = [](std::string_view part, std::string_view more) {
    return std::ranges::all_of(part, [more](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || more.find(c) != more.npos;
    });
  };
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == host.npos || !of(host.substr(1, end - 1), ":.-_~%")) return false;
    host.remove_prefix(end + 1);
  } else {
    const size_t end = std::min(host.find(':'), host.size());
    if (!of(host.substr(0, end), "-._~%!$&'()*+,;=")) return false;
    host.remove_prefix(end);
  }
  return host.empty() || (host[0] == ':' && std::ranges::all_of(host.substr(1), [](char c) {
                            return c >= '0' && c <= '9';
                          }));
}

// Codings in front of "chunked" are sound, and not known here (RFC 9112, section 6.1).
absl::Status CheckTransferEncoding(beast::string_view field) {
  const std::string_view text(field.data(), field.size());
  const size_t comma = text.rfind(',');
  const size_t last = text.find_first_not_of(" \t", comma == text.npos ? 0 : comma + 1);
  if (last == text.npos || !beast::iequals(field.substr(last), "chunked")) {
    return BadHttpRequest("chunked is not its last transfer coding");
  }
  if (comma == text.npos) return absl::OkStatus();
  for (const absl::string_view coding :
       absl::StrSplit(absl::string_view(text.data(), comma), ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(coding);
    if (name.empty() || absl::EqualsIgnoreCase(name, "chunked")) {
      return BadHttpRequest("its body is chunked twice");
    }
  }
  return Unimplemented("http.transfer_coding_unknown", "unsupported transfer coding: use chunked");
}

absl::Status CheckFraming(const http::request_header<>& head) {
  const bool old = head.version() < 11;
  const size_t hosts = CountOf(head, http::field::host);
  if (hosts > 1 || (hosts == 0 && !old)) return BadHttpRequest("it names no host, or two");
  if (!IsHost(head[http::field::host])) return BadHttpRequest("its Host is not valid");
  const size_t lengths = CountOf(head, http::field::content_length);
  const size_t encodings = CountOf(head, http::field::transfer_encoding);
  if (lengths + encodings > 1) return BadHttpRequest("its body has two lengths");
  if (lengths == 1 && !AllDigits(head[http::field::content_length])) {
    return BadHttpRequest("its body's length is no number");
  }
  if (encodings == 0) return absl::OkStatus();
  if (old) return BadHttpRequest("its body comes in a coding that its version does not have");
  return CheckTransferEncoding(head[http::field::transfer_encoding]);
}

}  // namespace

absl::Status BadHttpRequest(std::string_view what) {
  return InvalidArgument("http.bad_request", absl::StrCat("no HTTP request: ", std::string(what)));
}

absl::Status CheckHeadLines(std::string_view head) {
  for (size_t i = 0; i < head.size(); ++i) {
    const char before = i == 0 ? '\0' : head[i - 1];
    const bool ends_badly = head[i] == '\0' || (head[i] == '\n') != (before == '\r');
    const bool goes_on = before == '\n' && (head[i] == ' ' || head[i] == '\t');  // obs-fold
    if (ends_badly || goes_on) return BadHttpRequest("its lines are not as they should be");
  }
  return absl::OkStatus();
}

absl::StatusOr<HttpTarget> CheckHead(http::request_header<>& head) {
  if (head.target().size() > limits::kMaxHttpTargetBytes) {
    return InvalidArgument("http.target_too_long", "the path and query are too long");
  }
  if (std::distance(head.begin(), head.end()) > limits::kMaxHttpFields) {
    return ResourceExhausted("http.head_too_large",
                             absl::StrCat("more than ", limits::kMaxHttpFields, " fields"));
  }
  FOVEA_RETURN_IF_ERROR(CheckFraming(head));
  std::string_view text(head.target().data(), head.target().size());
  if (const std::optional<std::string_view> host = TakeHost(&text)) {
    const beast::string_view named(host->data(), host->size());
    if (named.empty() || !IsHost(named))
      return BadHttpRequest("the host in its target is not valid");
    head.set(http::field::host, named);
  }
  std::optional<HttpTarget> target = text == "*" && head.method() == http::verb::options
                                         ? HttpTarget{.path = {}, .query = {}, .whole_server = true}
                                         : ParseTarget(text);
  if (!target) return BadHttpRequest("its target is no path");
  if (head.method() == http::verb::unknown) {
    return Unimplemented("http.method_unknown", "the method is not known here");
  }
  return *std::move(target);
}

}  // namespace fovea
