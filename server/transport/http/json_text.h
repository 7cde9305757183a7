// Numbers and texts as JSON has them.
#pragma once

#include <charconv>
#include <iterator>
#include <string>
#include <string_view>

namespace fovea {

// As many digits as tell it from other numbers of its type. It is finite.
template <typename Number>
void AppendNumber(Number value, std::string* json) {
  char digits[32];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value);
  json->append(digits, end);
}

// `text` in quotes; what is no UTF-8 in it is replaced.
void AppendText(std::string_view text, std::string* json);

}  // namespace fovea
