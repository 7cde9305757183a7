#include "server/observe/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <memory>

#include "base/check.h"
#include "server/core/spdlog_level.h"

namespace fovea {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e %-7l %v";

// The inside of a JSON string; control characters have been escaped by core/log.
template <typename Out>
void AppendQuoted(std::string_view escaped, Out& out) {
  for (const char c : escaped) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
}

// Between a line's message and the rest of its JSON object. Neither can hold it: both are escaped.
constexpr char kFieldsFollow = '\0';

// %*: the message as the inside of a JSON string, then the end of the object.
class JsonText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    const size_t end = payload.find(kFieldsFollow);
    AppendQuoted(payload.substr(0, end), out);
    out.push_back('"');
    if (end != std::string_view::npos) {
      const std::string_view fields = payload.substr(end + 1);
      out.append(fields.data(), fields.data() + fields.size());
    }
    out.push_back('}');
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }
};

std::unique_ptr<spdlog::formatter> JsonFormatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<JsonText>('*').set_pattern(
      R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","thread":%t,"message":"%*)");
  return formatter;
}

// ,"name":value for each field.
std::string Json(const std::vector<LogField>& fields) {
  std::string json;
  for (const LogField& field : fields) {
    json.append(",\"").append(field.name).append("\":");
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      json.push_back('"');
      AppendQuoted(EscapeForLog(*text), json);
      json.push_back('"');
    } else if (const auto* number = std::get_if<int64_t>(&field.value)) {
      json.append(std::to_string(*number));
    } else {
      const double value = std::get<double>(field.value);
      FOVEA_CHECK(std::isfinite(value));
      json.append(fmt::format("{:.3f}", value));
    }
  }
  return json;
}

// " name=value" for each field.
std::string Text(const std::vector<LogField>& fields) {
  static constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/+-";
  std::string line;
  for (const LogField& field : fields) {
    line.append(" ").append(field.name).append("=");
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      const bool plain =
          !text->empty() && text->find_first_not_of(kPlain) == std::string_view::npos;
      if (!plain) line.push_back('"');
      AppendQuoted(EscapeForLog(*text), line);
      if (!plain) line.push_back('"');
    } else if (const auto* number = std::get_if<int64_t>(&field.value)) {
      line.append(std::to_string(*number));
    } else {
      line.append(fmt::format("{:.3f}", std::get<double>(field.value)));
    }
  }
  return line;
}

// `level` and what is more severe.
LogLevels LevelsFrom(std::string_view level) {
  const bool debug = level == "debug", info = debug || level == "info",
             warning = info || level == "warning";
  FOVEA_CHECK(warning || level == "error");
  return {.error = true, .warning = warning, .info = info, .debug = debug};
}

// Made by SetUpLogging, before there are threads.
struct FieldLoggers {
  std::shared_ptr<spdlog::logger> log, announcements;
  bool json = false;
};
FieldLoggers& Loggers() {
  static FieldLoggers& loggers = *new FieldLoggers;
  return loggers;
}

std::string JsonLine(std::string_view message, const std::vector<LogField>& fields) {
  return EscapeForLog(message) + kFieldsFollow + Json(fields);
}

}  // namespace

void SetUpLogging(std::string_view level, std::string_view format) {
  FOVEA_CHECK(format == "text" || format == "json");
  FieldLoggers& loggers = Loggers();
  loggers.json = format == "json";
  const auto make = [&](const char* name, spdlog::sink_ptr sink, const char* text_pattern) {
    auto logger = std::make_shared<spdlog::logger>(name, std::move(sink));
    if (loggers.json) {
      logger->set_formatter(JsonFormatter());
    } else {
      logger->set_pattern(text_pattern);
    }
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    return logger;
  };
  loggers.log = make("fields", std::make_shared<spdlog::sinks::stderr_sink_mt>(), kTextPattern);
  loggers.announcements =
      make("announcements", std::make_shared<spdlog::sinks::stdout_sink_mt>(), "%v");
  auto logger = make("fovea", std::make_shared<spdlog::sinks::stderr_sink_mt>(), kTextPattern);
  SetLogLevels(LevelsFrom(level));  // the logger itself writes all that it is given
  spdlog::set_default_logger(std::move(logger));
}

void LogWithFields(LogLevel level, std::string_view message, const std::vector<LogField>& fields) {
  const FieldLoggers& loggers = Loggers();
  loggers.log->log(SpdlogLevel(level), "{}",
                   loggers.json ? JsonLine(message, fields) : EscapeForLog(message) + Text(fields));
}

void Announce(std::string_view message, const std::vector<LogField>& fields) {
  const FieldLoggers& loggers = Loggers();
  loggers.announcements->info("{}",
                              loggers.json ? JsonLine(message, fields) : EscapeForLog(message));
}

}  // namespace fovea
