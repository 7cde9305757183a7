#include "server/core/log.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "base/utf8.h"
#include "server/core/spdlog_level.h"

namespace fovea {
namespace {

void AppendEscaped(std::string& to, std::string_view bytes) {
  char code[5];
  for (const char c : bytes) {
    std::snprintf(code, sizeof(code), "\\x%02x", static_cast<unsigned char>(c));
    to += code;
  }
}

// A bit for each that is written. spdlog knows a least severe level alone, so that it is asked to
// write all.
constexpr unsigned Bit(LogLevel level) { return 1u << static_cast<unsigned>(level); }
std::atomic<unsigned> written_levels =
    Bit(LogLevel::kInfo) | Bit(LogLevel::kWarning) | Bit(LogLevel::kError);

thread_local const LogContext* innermost_context = nullptr;

}  // namespace

void SetLogLevels(const LogLevels& levels) {
  written_levels =
      (levels.debug ? Bit(LogLevel::kDebug) : 0) | (levels.info ? Bit(LogLevel::kInfo) : 0) |
      (levels.warning ? Bit(LogLevel::kWarning) : 0) | (levels.error ? Bit(LogLevel::kError) : 0);
}

LogLevels CurrentLogLevels() {
  const unsigned written = written_levels;
  const auto has = [&](LogLevel level) { return (written & Bit(level)) != 0; };
  return {.error = has(LogLevel::kError),
          .warning = has(LogLevel::kWarning),
          .info = has(LogLevel::kInfo),
          .debug = has(LogLevel::kDebug)};
}

std::string EscapeForLog(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = DecodeUtf8(text);
    const std::string_view bytes = text.substr(0, static_cast<size_t>(next.length));
    if (next.value == CodePoint::kInvalid || IsControl(next.value) || IsMisleading(next.value)) {
      AppendEscaped(escaped, bytes);
    } else {
      escaped += bytes;
    }
    text.remove_prefix(bytes.size());
  }
  return escaped;
}

void Log(LogLevel level, std::string_view message) {
  if ((written_levels.load(std::memory_order_relaxed) & Bit(level)) != 0) LogAlways(level, message);
}

void LogAlways(LogLevel level, std::string_view message) {
  std::string line = EscapeForLog(message);
  if (innermost_context != nullptr) {
    line += " (" + EscapeForLog(innermost_context->About()) + ")";
  }
  spdlog::log(SpdlogLevel(level), "{}", line);
}

LogContext::LogContext() : outer_(innermost_context) { innermost_context = this; }

LogContext::~LogContext() { innermost_context = outer_; }

}  // namespace fovea
