#include "server/transport/http/http_target.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "base/limits.h"

namespace fovea {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high << 4 | low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    decoded.push_back(c);
  }
  return decoded;
}

}  // namespace

std::optional<std::string_view> TakeHost(std::string_view* text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase({text->data(), text->size()}, {scheme.data(), scheme.size()})) {
      continue;
    }
    const std::string_view rest = text->substr(scheme.size());
    const size_t end = std::min(rest.find_first_of("/?"), rest.size());
    // A URL may leave its path out (section 3.2.1), if nothing follows it.
    *text = end == rest.size() ? std::string_view("/") : rest.substr(end);
    return rest.substr(0, end);
  }
  return std::nullopt;
}

std::optional<HttpTarget> ParseTarget(std::string_view text) {
  if (!text.starts_with('/') || text.find('#') != text.npos) return std::nullopt;
  HttpTarget target;
  const size_t question = text.find('?');
  const std::string_view path = text.substr(1, question == text.npos ? question : question - 1);
  for (size_t at = 0; !path.empty() && at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::optional<std::string> part = Decode(path.substr(at, end - at), false);
    if (!part || target.path.size() == limits::kMaxHttpPathParts) return std::nullopt;
    target.path.push_back(*part);
    at = end + 1;
  }
  if (question == text.npos) return target;
  const std::string_view query = text.substr(question + 1);
  for (size_t at = 0; at < query.size();) {
    const size_t end = std::min(query.find('&', at), query.size());
    const std::string_view one = query.substr(at, end - at);
    const size_t equals = std::min(one.find('='), one.size());
    const auto name = Decode(one.substr(0, equals), true);
    const auto value = Decode(one.substr(std::min(equals + 1, one.size())), true);
    if (!name || !value || target.query.size() == limits::kMaxHttpQueryPairs) return std::nullopt;
    if (!one.empty()) target.query.emplace_back(*name, *value);
    at = end + 1;
  }
  return target;
}

}  // namespace fovea
