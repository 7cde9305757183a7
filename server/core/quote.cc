#include "server/core/quote.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace fovea {

std::string InQuotes(std::string_view text) {
  constexpr size_t kMaxBytes = 64;
  const std::string_view shown = text.substr(0, kMaxBytes);
  return absl::StrCat("'", absl::CHexEscape({shown.data(), shown.size()}),
                      shown.size() < text.size() ? "..." : "", "'");
}

}  // namespace fovea
