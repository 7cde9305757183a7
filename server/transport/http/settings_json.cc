#include "server/transport/http/settings_json.h"

#include <limits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

using nlohmann::json;

absl::Status WrongType(std::string_view name) {
  return InvalidArgument("request.json",
                         absl::StrCat("the setting ", InQuotes(name), " is of another type"));
}

// Text, several of them, a number for text, or null.
absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& name, const json& value) {
  std::vector<std::string> texts;
  if (value.is_null()) return texts;
  if (value.is_string()) {
    texts.push_back(value.get<std::string>());
  } else if (value.is_number_integer()) {
    texts.push_back(value.dump());
  } else if (value.is_array()) {
    for (const json& one : value) {
      if (!one.is_string()) return WrongType(name);
      texts.push_back(one.get<std::string>());
    }
  } else {
    return WrongType(name);
  }
  return texts;
}

absl::StatusOr<LogControl::Value> ReadLogSetting(const std::string& name, const json& value) {
  if (value.is_null()) return LogControl::Value();
  if (value.is_boolean()) return LogControl::Value(value.get<bool>());
  if (value.is_string()) return LogControl::Value(value.get<std::string>());
  if (!value.is_number_unsigned() || value.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    return WrongType(name);
  }
  return LogControl::Value(static_cast<uint32_t>(value.get<uint64_t>()));
}

}  // namespace

absl::StatusOr<std::string> AnswerTraceSettings(ServerApi& api, const std::string& model,
                                                const json& body, const Caller& caller) {
  TraceControl::Values changes;
  for (const auto& [name, value] : body.items()) {
    FOVEA_ASSIGN_OR_RETURN(changes[name], ReadTexts(name, value));
  }
  FOVEA_ASSIGN_OR_RETURN(const TraceControl::Values settings,
                         api.ChangeTraceSettings(model, changes, caller));
  json answer = json::object();
  for (const auto& [name, values] : settings) {
    // As Triton has it: a list where there may be several.
    if (name == "trace_level") {
      answer[name] = values;
    } else {
      answer[name] = values[0];
    }
  }
  return answer.dump();
}

absl::StatusOr<std::string> AnswerLogSettings(ServerApi& api, const json& body,
                                              const Caller& caller) {
  LogControl::Values changes;
  for (const auto& [name, value] : body.items()) {
    FOVEA_ASSIGN_OR_RETURN(changes[name], ReadLogSetting(name, value));
  }
  FOVEA_ASSIGN_OR_RETURN(const LogControl::Values settings, api.ChangeLogSettings(changes, caller));
  json answer = json::object();
  for (const auto& [name, value] : settings) {
    if (const auto* truth = std::get_if<bool>(&value)) answer[name] = *truth;
    if (const auto* number = std::get_if<uint32_t>(&value)) answer[name] = *number;
    if (const auto* text = std::get_if<std::string>(&value)) answer[name] = *text;
  }
  return answer.dump();
}

}  // namespace fovea
