// A line for the log. Includes no logging library: LibTorch's include folder carries an fmt of its
// own, which spdlog's headers must not meet in one translation unit.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// `text` with control characters, and bytes that are not UTF-8, as escapes (\x0a): the one moves a
// terminal's cursor or begins a line, the other breaks one of JSON.
std::string EscapeForLog(std::string_view text);

// Thread-safe. Control characters in `message`, and bytes that are not UTF-8, are written as
// escapes, so that nobody's text can forge a line.
void Log(LogLevel level, std::string_view message);

}  // namespace fovea
