#include "server/tracing/trace_context.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/limits.h"

namespace fovea {
namespace {

constexpr size_t kParentBytes = 55;  // of version 00: 2 + 32 + 16 + 2 digits, 3 hyphens
constexpr uint64_t kSampledFlag = 1;
constexpr size_t kMaxStateMembers = 32;
constexpr size_t kMaxStateKey = 256, kMaxStateTenant = 241, kMaxStateSystem = 14;
constexpr size_t kMaxStateValue = 256;

// Of lower-case hexadecimal digits, 16 at most.
std::optional<uint64_t> ReadHex(std::string_view digits) {
  uint64_t value = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && (c < 'a' || c > 'f')) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return value;
}

TraceContext ReadParent(std::string_view text) {
  if (text.size() < kParentBytes || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  const auto version = ReadHex(text.substr(0, 2));
  const auto high = ReadHex(text.substr(3, 16)), low = ReadHex(text.substr(19, 16));
  const auto span = ReadHex(text.substr(36, 16)), flags = ReadHex(text.substr(53, 2));
  if (!version || !high || !low || !span || !flags || *version == 0xff) return {};
  const bool goes_on = text.size() > kParentBytes;
  if (goes_on && (*version == 0 || text[kParentBytes] != '-')) return {};
  TraceContext context{
      .trace = {*high, *low}, .span = *span, .sampled = (*flags & kSampledFlag) != 0, .state = ""};
  return context.trace.valid() && context.span != 0 ? context : TraceContext();
}

bool IsKeyPart(std::string_view text, size_t most, bool may_begin_with_digit) {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && text.size() <= most &&
         (lower(text[0]) || (may_begin_with_digit && digit(text[0]))) &&
         std::ranges::all_of(text, [&](char c) {
           return lower(c) || digit(c) || c == '_' || c == '-' || c == '*' || c == '/';
         });
}

bool IsStateKey(std::string_view key) {
  const size_t at = key.find('@');
  if (at == std::string_view::npos) return IsKeyPart(key, kMaxStateKey, false);
  return IsKeyPart(key.substr(0, at), kMaxStateTenant, true) &&
         IsKeyPart(key.substr(at + 1), kMaxStateSystem, false);
}

bool IsStateValue(std::string_view value) {
  return !value.empty() && value.size() <= kMaxStateValue && value.back() != ' ' &&
         std::ranges::all_of(value,
                             [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

bool IsState(std::string_view text) {
  std::vector<std::string_view> keys;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    const size_t first = part.find_first_not_of(" \t");
    if (first == absl::string_view::npos) continue;  // an empty member is none
    const size_t last = part.find_last_not_of(" \t");
    const std::string_view member(part.data() + first, last - first + 1);
    const size_t equals = member.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = member.substr(0, equals);
    if (!IsStateKey(key) || !IsStateValue(member.substr(equals + 1)) ||
        std::ranges::find(keys, key) != keys.end()) {
      return false;
    }
    keys.push_back(key);
    if (keys.size() > kMaxStateMembers) return false;
  }
  return !keys.empty();
}

std::string ReadState(std::span<const std::string_view> values) {
  size_t size = values.size();
  for (const std::string_view value : values) size += value.size();
  if (values.empty() || size - 1 > limits::kMaxTraceStateBytes) return "";
  std::string state;
  for (const std::string_view value : values) {
    if (!state.empty()) state += ',';
    state += value;
  }
  return IsState(state) ? state : "";
}

std::string Hex(uint64_t value) { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

}  // namespace

TraceContext ReadTraceContext(std::span<const std::string_view> traceparent,
                              std::span<const std::string_view> tracestate) {
  if (traceparent.size() != 1) return {};
  TraceContext context = ReadParent(traceparent[0]);
  if (context.valid()) context.state = ReadState(tracestate);
  return context;
}

std::string TraceParentText(const TraceContext& context) {
  if (!context.valid()) return "";
  return absl::StrCat("00-", TraceIdText(context.trace), "-", Hex(context.span),
                      context.sampled ? "-01" : "-00");
}

std::string TraceIdText(const TraceId& trace) {
  return trace.valid() ? Hex(trace.high) + Hex(trace.low) : "";
}

}  // namespace fovea
