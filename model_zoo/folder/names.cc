#include "model_zoo/folder/names.h"

#include <charconv>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

}  // namespace

bool IsModelName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kMaxModelNameBytes && name != "." &&
         name != ".." && name.find_first_not_of(kNameCharacters) == std::string_view::npos;
}

std::optional<int64_t> ParseVersion(std::string_view text) {
  if (text.empty() || text.front() < '1' || text.front() > '9') return std::nullopt;
  int64_t version = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, version);
  if (error != std::errc() || stop != end) return std::nullopt;
  return version;
}

bool IsVersionLabel(std::string_view text) {
  const char first = text.empty() ? '\0' : text.front();
  return IsModelName(text) && ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z'));
}

absl::Status CheckModelName(std::string_view name) {
  if (IsModelName(name)) return absl::OkStatus();
  return InvalidArgument("model.bad_name",
                         "a model's name is 1 to 128 of the characters A-Z a-z 0-9 . _ -");
}

absl::Status CheckVersion(std::string_view version) {
  if (version.empty() || ParseVersion(version) || IsVersionLabel(version)) return absl::OkStatus();
  return InvalidArgument("model.bad_version",
                         "a model's version is a positive decimal number without leading zeros, or "
                         "a label that begins with a letter");
}

}  // namespace fovea
