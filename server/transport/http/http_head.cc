#include "server/transport/http/http_head.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

absl::Status CheckFraming(const http::request_header<>& head) {
  const bool old = head.version() < 11;
  const size_t hosts = CountOf(head, http::field::host);
  if (hosts > 1 || (hosts == 0 && !old)) return BadHttpRequest("it names no host, or two");
  const size_t lengths = CountOf(head, http::field::content_length);
  const size_t encodings = CountOf(head, http::field::transfer_encoding);
  if (lengths + encodings > 1) return BadHttpRequest("its body has two lengths");
  if (lengths == 1 && !AllDigits(head[http::field::content_length])) {
    return BadHttpRequest("its body's length is no number");
  }
  if (encodings == 1 && (old || !beast::iequals(head[http::field::transfer_encoding], "chunked"))) {
    return BadHttpRequest("its body is encoded in a way that is not known here");
  }
  return absl::OkStatus();
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

absl::StatusOr<HttpTarget> CheckHead(const http::request_header<>& head) {
  if (head.target().size() > limits::kMaxHttpTargetBytes) {
    return InvalidArgument("http.target_too_long", "the path and query are too long");
  }
  if (std::distance(head.begin(), head.end()) > limits::kMaxHttpFields) {
    return ResourceExhausted("http.head_too_large",
                             absl::StrCat("more than ", limits::kMaxHttpFields, " fields"));
  }
  FOVEA_RETURN_IF_ERROR(CheckFraming(head));
  std::optional<HttpTarget> target = ParseTarget({head.target().data(), head.target().size()});
  if (!target) return BadHttpRequest("its target is no path");
  if (head.method() == http::verb::unknown) {
    return Unimplemented("http.method_unknown", "the method is not known here");
  }
  return *std::move(target);
}

}  // namespace fovea
