// Triton's log settings, as far as they mean something here: which levels are written, changed
// while the server runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "server/core/log.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. There is one of the process's log.
class LogControl {
 public:
  // No value, in a change: as it was at the start.
  using Value = std::variant<std::monostate, bool, uint32_t, std::string>;
  using Values = std::map<std::string, Value>;

  // What is written now is how it was at the start.
  explicit LogControl(std::string format);

  // All of `changes` or none; the log says by whom. INVALID_ARGUMENT log.bad_setting: an unknown
  // name or a value of another type; UNIMPLEMENTED log.setting: what is told when the server is
  // started, or never.
  absl::Status Change(const Values& changes, std::string_view who);
  // All six.
  Values Current() const;

 private:
  struct Levels {
    LogLevels written;
    uint32_t verbose = 0;  // log_verbose_level; above 0 `written.debug` is set
  };

  absl::Status ChangeOne(const std::string& name, const Value& value, Levels* levels) const;

  const std::string format_;
  const Levels at_start_;
  mutable Mutex mutex_;
  Levels levels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace fovea
