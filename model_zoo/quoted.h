// Text from outside, in a sentence.
#pragma once

#include <string>
#include <string_view>

namespace fovea::models {

// In quotes, printable and short: a hostile name can neither break a log line nor fill it.
inline std::string Quoted(std::string_view name) {
  constexpr size_t kMaxShown = 96;
  std::string quoted = "'";
  for (char c : name.substr(0, kMaxShown)) {
    quoted += c >= ' ' && c <= '~' ? c : '?';
  }
  return quoted + (name.size() > kMaxShown ? "...'" : "'");
}

}  // namespace fovea::models
