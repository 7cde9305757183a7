// A line for the log. Includes no logging library: LibTorch's include folder carries an fmt of its
// own, which spdlog's headers must not meet in one translation unit.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// `text` with control characters, separators of lines, marks that turn the direction of text, and
// bytes that are not UTF-8, as escapes (\x0a): they move a terminal's cursor, begin a line, show
// another one than was written, or break one of JSON.
std::string EscapeForLog(std::string_view text);

// Which levels are written. Each for itself: Triton's clients turn them on and off so.
struct LogLevels {
  bool error = true, warning = true, info = true, debug = false;

  bool operator==(const LogLevels&) const = default;
};

// From now on these levels are written by Log, and no others. Thread-safe.
void SetLogLevels(const LogLevels& levels);
LogLevels CurrentLogLevels();

// Does nothing where the level is not written. Thread-safe. Control characters in `message`, and
// bytes that are not UTF-8, are written as escapes, so that nobody's text can forge a line.
void Log(LogLevel level, std::string_view message);
// Writes it whatever levels are written: that somebody changes what is seen of others.
void LogAlways(LogLevel level, std::string_view message);

// While one lives, each line that its thread writes by the two above ends with what it is about, in
// parentheses. The innermost of several counts.
class LogContext {
 public:
  LogContext(const LogContext&) = delete;
  LogContext& operator=(const LogContext&) = delete;

  // For each line; escaped like its message.
  virtual std::string About() const = 0;

 protected:
  LogContext();
  ~LogContext();

 private:
  const LogContext* const outer_;
};

}  // namespace fovea
