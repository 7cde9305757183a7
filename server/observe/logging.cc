#include "server/observe/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

#include "server/core/check.h"

namespace fovea {
namespace {

// The message as the inside of a JSON string. Control characters have been escaped by core/log.
class JsonText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    for (const char c : message.payload) {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonText>();
  }
};

spdlog::level::level_enum Level(std::string_view level) {
  if (level == "debug") return spdlog::level::debug;
  if (level == "info") return spdlog::level::info;
  if (level == "warning") return spdlog::level::warn;
  FOVEA_CHECK(level == "error");
  return spdlog::level::err;
}

}  // namespace

void SetUpLogging(std::string_view level, std::string_view format) {
  auto logger =
      std::make_shared<spdlog::logger>("fovea", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == "json") {
    auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
    formatter->add_flag<JsonText>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","thread":%t,"message":"%*"})");
    logger->set_formatter(std::move(formatter));
  } else {
    FOVEA_CHECK(format == "text");
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %-7l %v");
  }
  logger->set_level(Level(level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace fovea
