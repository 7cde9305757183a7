#include "client/cpp/cli/options.h"

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {

CLI::Validator InRange(int low, int high) {
  return CLI::Validator(CLI::Range(low, high)).description("");
}

CLI::Validator InRange(double low, double high) {
  return CLI::Validator(CLI::Range(low, high)).description("");
}

CLI::Option* Repeatable(CLI::Option* option, const std::string& type) {
  return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->type_name(type);
}

void AddTime(CLI::App& command, const std::string& option, absl::Duration& time,
             const std::string& what) {
  const std::string fallback = time > absl::ZeroDuration()
                                   ? absl::StrCat(" (default: ", absl::FormatDuration(time), ")")
                                   : "";
  command
      .add_option_function<std::string>(
          option,
          [&time, option](const std::string& text) {
            const auto parsed = ParseTime(text);
            if (!parsed.ok()) {
              throw CLI::ValidationError(option, std::string(parsed.status().message()));
            }
            time = *parsed;
          },
          absl::StrCat(what, ": seconds, or 500ms, 2m", fallback))
      ->type_name("TIME");
}

void AddTimeout(CLI::App& command, CallOptions& call, const std::string& what) {
  AddTime(command, "--timeout", call.timeout, what);
}

void AddJson(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print JSON instead of a table");
}

}  // namespace fovea::client
