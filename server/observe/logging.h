// Where the log goes and in which form. Lines are written through core/log.h, or with fields here.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "server/core/log.h"

namespace fovea {

// `level`: debug, info, warning, error; `format`: text, or json (one object a line). Writes to
// standard error. To be called once, with signals blocked and before other threads are started.
// UNAVAILABLE (server.no_thread).
//
// Nobody who logs waits for a write: lines go into a queue of limits::kMaxQueuedLogLines, which a
// thread of its own writes in their order. Where nobody reads them the oldest are dropped, counted,
// and the count stands in their place. exit() waits limits::kLogFlushMs for what is queued.
absl::Status SetUpLogging(std::string_view level, std::string_view format);

// Waits until everything that has been logged is written; at most so long, and false then.
// Thread-safe.
bool FlushLog(std::chrono::milliseconds most);

// Lines that were dropped since the start. Thread-safe.
int64_t DroppedLogLines();

// What a program reads of a line. Names are ours: letters and underscores.
struct LogField {
  std::string_view name;
  std::variant<std::string_view, int64_t, double> value;
};

// As Log, whatever the level that is written. json: the fields are the object's, beside time, level
// and message; text: they follow `message` as name=value, in quotes where that is needed to tell
// them apart. Thread-safe.
void LogWithFields(LogLevel level, std::string_view message, const std::vector<LogField>& fields);

// For whoever started the process, on standard output: `message` as it is, or in json an object as
// LogWithFields writes it.
void Announce(std::string_view message, const std::vector<LogField>& fields);

}  // namespace fovea
