#include "server/transport/http/multipart.h"

#include <algorithm>
#include <boost/beast/http/rfc7230.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

namespace beast = boost::beast;

constexpr std::string_view kLine = "\r\n", kDashes = "--";
constexpr size_t kMostBoundaryBytes = 70;

absl::Status NoForm(std::string_view what) {
  return InvalidArgument("request.form", absl::StrCat("no form: ", std::string(what)));
}

// Names are compared by Abseil: where two differ, Beast's iequals reads a byte past the end of
// both.

// Of "form-data; name=image" the value of `name`; empty where there is none.
std::string Parameter(std::string_view value, std::string_view name) {
  const size_t parameters = std::min(value.find(';'), value.size());
  for (const auto& [key, text] :
       beast::http::param_list({value.data() + parameters, value.size() - parameters})) {
    if (absl::EqualsIgnoreCase({key.data(), key.size()}, {name.data(), name.size()})) {
      return std::string(text);
    }
  }
  return "";
}

// The name in the head of a part.
std::string NameOf(std::string_view head) {
  constexpr std::string_view kDisposition = "content-disposition:";
  for (size_t at = 0; at < head.size();) {
    const size_t end = std::min(head.find(kLine, at), head.size());
    const std::string_view line = head.substr(at, end - at);
    if (absl::EqualsIgnoreCase({line.data(), std::min(line.size(), kDisposition.size())},
                               {kDisposition.data(), kDisposition.size()})) {
      return Parameter(line.substr(kDisposition.size()), "name");
    }
    at = end + kLine.size();
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<FormPart>> ReadForm(std::string_view content_type,
                                               std::string_view body) {
  const std::string boundary = Parameter(content_type, "boundary");
  if (boundary.empty() || boundary.size() > kMostBoundaryBytes) {
    return NoForm("its type names no boundary");
  }
  const std::string first = absl::StrCat(std::string(kDashes), boundary);
  const std::string delimiter = absl::StrCat(std::string(kLine), first);
  // What stands before the first boundary is no part.
  size_t at = body.starts_with(first) ? 0 : body.find(delimiter);
  if (at == body.npos) return NoForm("its boundary is not there");
  at += at == 0 ? first.size() : delimiter.size();
  std::vector<FormPart> parts;
  for (;;) {
    if (body.substr(at).starts_with(kDashes)) return parts;
    if (parts.size() == limits::kMaxFormParts) {
      return NoForm(absl::StrCat("it has more than ", limits::kMaxFormParts, " parts"));
    }
    const size_t line = body.find(kLine, at);
    // A part without a head begins with an empty line: the line's end is part of what is looked
    // for.
    const size_t head_end = line == body.npos ? line : body.find("\r\n\r\n", line);
    if (head_end == body.npos || head_end - at > limits::kMaxFormHeadBytes) {
      return NoForm("a part has no head");
    }
    const size_t begin = head_end + 4, end = body.find(delimiter, head_end + 2);
    if (end == body.npos || end < begin) return NoForm("it does not end");
    std::string name = NameOf(
        body.substr(line + kLine.size(), head_end - std::min(head_end, line + kLine.size())));
    if (name.empty()) return NoForm("a part has no name");
    parts.push_back({.name = std::move(name), .bytes = body.substr(begin, end - begin)});
    at = end + delimiter.size();
  }
}

}  // namespace fovea
