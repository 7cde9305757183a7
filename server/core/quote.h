// A caller's text inside our own.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

// `text` in single quotes, fit for a message or a line of log: what is not printable ASCII is
// escaped, and a long text is cut after 64 bytes.
std::string InQuotes(std::string_view text);

}  // namespace fovea
