#include "server/transport/http/playground.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/web/web_files.h"

namespace fovea::http_calls {
namespace {

using boost::beast::http::field;
using boost::beast::http::status;

// Of every file. A page may load and ask what this server has, and nothing else; no text becomes
// code; no other site frames it, or is told whence a link came. Pictures of a person's own are
// blobs; what attention sees comes as data.
constexpr std::array<std::pair<const char*, const char*>, 6> kFields = {{
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Permissions-Policy", "camera=(self), geolocation=(), microphone=()"},
    // Asked for each time, and then seldom sent: another version of the server has other files.
    {"Cache-Control", "no-cache"},
}};

// RFC 9110, section 13.1.2.
bool Matches(std::string_view if_none_match, std::string_view etag) {
  for (absl::string_view one :
       absl::StrSplit(absl::string_view(if_none_match.data(), if_none_match.size()), ',')) {
    one = absl::StripAsciiWhitespace(one);
    if (one == "*" || std::string_view(one.data(), one.size()) == etag) return true;
  }
  return false;
}

void Send(const PathCall& call, std::string_view name) {
  const std::span<const WebFile> files = WebFiles();
  const auto file = std::ranges::find(files, name, &WebFile::name);
  if (file == files.end()) {
    return call.Answer(NotFound("playground.no_file", "the playground has no such file"));
  }
  HttpAnswer answer;
  for (const auto& [field_name, value] : kFields) answer.fields.emplace_back(field_name, value);
  answer.fields.emplace_back("ETag", file->etag);
  if (Matches(call.exchange->request().Field(field::if_none_match), file->etag)) {
    answer.status = status::not_modified;
  } else {
    answer.fields.emplace_back("Content-Type", file->content_type);
    answer.body.emplace_back(file->bytes);
  }
  call.exchange->Answer(std::move(answer));
}

}  // namespace

void OpenPlayground(PathCall call) { Send(call, "index.html"); }
void PlaygroundFile(PathCall call) { Send(call, call.Name(0)); }

}  // namespace fovea::http_calls
