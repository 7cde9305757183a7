#include "server/lifecycle/available_memory.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace fovea {
namespace {

std::optional<int64_t> Number(std::string_view text) {
  int64_t number;
  const absl::string_view bare =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  if (!absl::SimpleAtoi(bare, &number) || number < 0) return std::nullopt;  // "max" among them
  return number;
}

// The number after `key` at the beginning of a line: "MemAvailable:   123 kB", "inactive_file 123".
std::optional<int64_t> Find(const std::optional<std::string>& text, std::string_view key) {
  if (!text) return std::nullopt;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.substr(0, key.size()) != absl::string_view(key.data(), key.size())) continue;
    const std::string rest(absl::StripAsciiWhitespace(line.substr(key.size())));
    return Number(rest.substr(0, rest.find(' ')));
  }
  return std::nullopt;
}

std::optional<int64_t> LeftIn(const ReadFile& read, int version, const std::string& folder) {
  const bool first = version == 1;
  const auto limit = read(folder + (first ? "/memory.limit_in_bytes" : "/memory.max"));
  const auto usage = read(folder + (first ? "/memory.usage_in_bytes" : "/memory.current"));
  if (!limit || !usage) return std::nullopt;
  const auto limit_bytes = Number(*limit), used_bytes = Number(*usage);
  if (!limit_bytes || !used_bytes) return std::nullopt;
  // Pages of files that nobody uses are given up before anybody is refused memory.
  const int64_t cached =
      Find(read(folder + "/memory.stat"), first ? "total_inactive_file " : "inactive_file ")
          .value_or(0);
  return std::max<int64_t>(0, *limit_bytes - *used_bytes + std::min(cached, *used_bytes));
}

}  // namespace

std::optional<int64_t> FindAvailableMemory(const ReadFile& read) {
  std::optional<int64_t> available = Find(read("/proc/meminfo"), "MemAvailable:");
  if (available) *available *= 1024;
  const CgroupFolders cgroup = FindCgroup(read, "memory");
  for (const std::string& folder : cgroup.folders) {
    const std::optional<int64_t> left = LeftIn(read, cgroup.version, folder);
    if (left && (!available || *left < *available)) available = left;
  }
  return available;
}

}  // namespace fovea
