#include "server/observe/logging.h"

#include <poll.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <future>
#include <memory>

#include "base/check.h"
#include "base/limits.h"
#include "server/core/spdlog_level.h"
#include "server/core/start_threads.h"

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

// A bounded queue of lines, and the one thread that writes them. Where the queue is full the oldest
// line makes room.
using LineQueue = std::shared_ptr<spdlog::details::thread_pool>;

// Writes to a descriptor, without stdio: a stalled write must not hold a lock that exit() takes.
// Only its queue's thread uses it.
class DescriptorSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // Reports the lines that `queue` dropped, at the place of the gap; null: reports nothing.
  DescriptorSink(int descriptor, LineQueue queue)
      : descriptor_(descriptor), queue_(std::move(queue)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const size_t dropped = queue_ != nullptr ? queue_->overrun_counter() : 0;
    if (dropped > reported_) {
      const std::string text =
          fmt::format("{} lines are missing here: the log was not read in time",
                      dropped - std::exchange(reported_, dropped));
      Write({message.time, {}, message.logger_name, spdlog::level::warn, text});
    }
    Write(message);
  }
  void flush_() override {}

  void Write(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (size_t at = 0; at < line.size();) {
      const ssize_t written = write(descriptor_, line.data() + at, line.size() - at);
      if (written >= 0) {
        at += static_cast<size_t>(written);
      } else if (errno == EAGAIN) {  // another process that shares the file made it so
        pollfd ready{.fd = descriptor_, .events = POLLOUT};
        poll(&ready, 1, -1);
      } else if (errno != EINTR) {
        return;  // a full disk, or a reader that is gone: it can be reported nowhere
      }
    }
  }

  const int descriptor_;
  const LineQueue queue_;
  size_t reported_ = 0;
};

// Signals when its queue has reached it.
class FlushSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::future<void> Done() { return done_.get_future(); }

 private:
  void sink_it_(const spdlog::details::log_msg&) override {}
  void flush_() override { done_.set_value(); }

  std::promise<void> done_;
};

bool SameFile(int one, int other) {
  struct stat a {};
  struct stat b {};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

// Set by SetUpLogging, before there are threads, and never destroyed: a thread that hangs in a
// write cannot be joined.
struct Logging {
  LineQueue errors, output;  // the same one where both go to one file, so that order is kept
  std::shared_ptr<spdlog::logger> log, announcements;
  bool json = false;
};
Logging& TheLogging() {
  static Logging& logging = *new Logging;
  return logging;
}

absl::Status StartQueues(Logging& logging) {
  if (logging.errors != nullptr) return absl::OkStatus();
  const auto make = [](int lines) {
    return std::make_shared<spdlog::details::thread_pool>(static_cast<size_t>(lines), 1);
  };
  return StartThreads([&] {
    logging.output = make(limits::kMaxQueuedLogLines);
    logging.errors =
        SameFile(STDOUT_FILENO, STDERR_FILENO) ? logging.output : make(limits::kMaxQueuedLogLines);
  });
}

std::string JsonLine(std::string_view message, const std::vector<LogField>& fields) {
  return EscapeForLog(message) + kFieldsFollow + Json(fields);
}

}  // namespace

absl::Status SetUpLogging(std::string_view level, std::string_view format) {
  FOVEA_CHECK(format == "text" || format == "json");
  Logging& logging = TheLogging();
  const bool first = logging.errors == nullptr;
  if (const absl::Status started = StartQueues(logging); !started.ok()) return started;
  logging.json = format == "json";
  const auto make = [&](const char* name, const spdlog::sink_ptr& sink, const LineQueue& queue,
                        const char* text_pattern) {
    auto logger = std::make_shared<spdlog::async_logger>(
        name, sink, queue, spdlog::async_overflow_policy::overrun_oldest);
    if (logging.json) {
      logger->set_formatter(JsonFormatter());
    } else {
      logger->set_pattern(text_pattern);
    }
    logger->set_level(spdlog::level::trace);
    // spdlog's own writes to standard error, which may stall.
    logger->set_error_handler([](const std::string&) {});
    return logger;
  };
  logging.announcements =
      make("announcements", std::make_shared<DescriptorSink>(STDOUT_FILENO, nullptr),
           logging.output, "%v");
  logging.log = make("fovea", std::make_shared<DescriptorSink>(STDERR_FILENO, logging.errors),
                     logging.errors, kTextPattern);
  SetLogLevels(LevelsFrom(level));  // the logger itself writes all that it is given
  spdlog::set_default_logger(logging.log);
  if (first) std::atexit([] { FlushLog(std::chrono::milliseconds(limits::kLogFlushMs)); });
  return absl::OkStatus();
}

bool FlushLog(std::chrono::milliseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  const Logging& logging = TheLogging();
  bool flushed = true;
  for (const LineQueue& queue : {logging.output, logging.errors}) {
    if (queue == nullptr) continue;
    const auto sink = std::make_shared<FlushSink>();
    const std::future<void> done = sink->Done();
    std::make_shared<spdlog::async_logger>("flush", sink, queue,
                                           spdlog::async_overflow_policy::overrun_oldest)
        ->flush();
    flushed &= done.wait_until(until) == std::future_status::ready;
  }
  return flushed;
}

int64_t DroppedLogLines() {
  const LineQueue& queue = TheLogging().errors;
  return queue == nullptr ? 0 : static_cast<int64_t>(queue->overrun_counter());
}

void LogWithFields(LogLevel level, std::string_view message, const std::vector<LogField>& fields) {
  const Logging& logging = TheLogging();
  logging.log->log(SpdlogLevel(level), "{}",
                   logging.json ? JsonLine(message, fields) : EscapeForLog(message) + Text(fields));
}

void Announce(std::string_view message, const std::vector<LogField>& fields) {
  const Logging& logging = TheLogging();
  logging.announcements->info("{}",
                              logging.json ? JsonLine(message, fields) : EscapeForLog(message));
}

}  // namespace fovea
