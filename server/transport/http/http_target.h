// What a request line asks for: a path and a query, decoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

// RFC 3986, sections 3.3 and 3.4, in the origin form of RFC 9112, section 3.2.1, or "*".
struct HttpTarget {
  std::vector<std::string> path;  // the parts between slashes; "/" has none
  std::vector<std::pair<std::string, std::string>> query;  // name=value, in their order
  bool whole_server = false;                               // "*" of OPTIONS
};

// Takes scheme and host off a target in absolute form (section 3.2.2) and returns the host; nothing
// where it has another form. What is left begins with a slash.
std::optional<std::string_view> TakeHost(std::string_view* text);

// Nothing where it does not begin with a slash, has a fragment, a percent sign is followed by no
// two hexadecimal digits, a part holds NUL, or there are more parts or pairs than limits.h allows.
std::optional<HttpTarget> ParseTarget(std::string_view text);

}  // namespace fovea
