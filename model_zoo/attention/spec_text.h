// What the parsers of attention texts share. Internal to attention/.
#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "model_zoo/quoted.h"

namespace fovea::models {

[[noreturn]] inline void Refuse(std::string_view text, const std::string& why) {
  C10_THROW_ERROR(ValueError, "attention " + Quoted(text) + ": " + why);
}

inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

// Plain decimals only: "1e5", "inf", "0x1" and signs are not numbers here.
inline bool IsDecimal(std::string_view text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789.") == text.npos &&
         std::ranges::count(text, '.') <= 1 && text.front() != '.' && text.back() != '.';
}

inline std::optional<int64_t> ToInteger(std::string_view text) {
  int64_t value = 0;
  if (!IsDecimal(text) || text.find('.') != text.npos ||
      std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace fovea::models
