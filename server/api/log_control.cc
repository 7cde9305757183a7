#include "server/api/log_control.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

absl::Status BadValue(std::string_view name, std::string_view wanted) {
  return InvalidArgument("log.bad_setting",
                         absl::StrCat(std::string(name), " is ", std::string(wanted)));
}

// A value that cannot be changed: resetting it, or giving it again, is no change.
absl::Status CheckFixed(std::string_view name, const LogControl::Value& value,
                        std::string_view fixed, std::string_view why) {
  if (std::holds_alternative<std::monostate>(value)) return absl::OkStatus();
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) return BadValue(name, "a text");
  return *text == fixed ? absl::OkStatus() : Unimplemented("log.setting", why);
}

}  // namespace

LogControl::LogControl(std::string format)
    : format_(std::move(format)),
      at_start_{CurrentLogLevels(), CurrentLogLevels().debug ? 1u : 0u},
      levels_(at_start_) {}

absl::Status LogControl::ChangeOne(const std::string& name, const Value& value,
                                   Levels* levels) const {
  if (name == "log_file") {
    return CheckFixed(name, value, "",
                      "this server writes its log to standard error, not to files");
  }
  if (name == "log_format") {
    return CheckFixed(name, value, format_,
                      "the form of the log is given when the server is started (--log-format)");
  }
  if (name == "log_verbose_level") {
    if (std::holds_alternative<std::monostate>(value)) {
      levels->verbose = at_start_.verbose;
    } else if (const auto* level = std::get_if<uint32_t>(&value)) {
      levels->verbose = *level;
    } else {
      return BadValue(name, "a whole number of at least 0");
    }
    levels->written.debug = levels->verbose > 0;
    return absl::OkStatus();
  }
  for (const auto& [known, level] :
       {std::pair{"log_info", &LogLevels::info}, std::pair{"log_warning", &LogLevels::warning},
        std::pair{"log_error", &LogLevels::error}}) {
    if (name != known) continue;
    if (std::holds_alternative<std::monostate>(value)) {
      levels->written.*level = at_start_.written.*level;
    } else if (const auto* written = std::get_if<bool>(&value)) {
      levels->written.*level = *written;
    } else {
      return BadValue(name, "true or false");
    }
    return absl::OkStatus();
  }
  return InvalidArgument("log.bad_setting", absl::StrCat("unknown setting ", InQuotes(name)));
}

absl::Status LogControl::Change(const Values& changes, std::string_view who) {
  MutexLock lock(mutex_);
  Levels changed = levels_;
  std::string names;
  for (const auto& [name, value] : changes) {
    FOVEA_RETURN_IF_ERROR(ChangeOne(name, value, &changed));
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  if (changes.empty()) return absl::OkStatus();
  LogAlways(LogLevel::kWarning,
            absl::StrCat("log settings are changed by ", std::string(who), ": ", names));
  levels_ = changed;
  SetLogLevels(levels_.written);
  return absl::OkStatus();
}

LogControl::Values LogControl::Current() const {
  MutexLock lock(mutex_);
  return {{"log_file", std::string()},
          {"log_info", levels_.written.info},
          {"log_warning", levels_.written.warning},
          {"log_error", levels_.written.error},
          {"log_verbose_level", levels_.verbose},
          {"log_format", format_}};
}

}  // namespace fovea
