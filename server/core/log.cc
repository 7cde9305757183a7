#include "server/core/log.h"

#include <spdlog/spdlog.h>

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

}  // namespace

std::string EscapeForLog(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const CodePoint next = DecodeUtf8(text);
    const std::string_view bytes = text.substr(0, static_cast<size_t>(next.length));
    if (next.value == CodePoint::kInvalid || IsControl(next.value)) {
      AppendEscaped(escaped, bytes);
    } else {
      escaped += bytes;
    }
    text.remove_prefix(bytes.size());
  }
  return escaped;
}

void Log(LogLevel level, std::string_view message) {
  spdlog::log(SpdlogLevel(level), "{}", EscapeForLog(message));
}

}  // namespace fovea
