#include "server/observe/logging.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "server/core/log.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::chrono::seconds kLong(60);

std::vector<std::string> LinesOf(std::string_view level, std::string_view format,
                                 const std::vector<std::pair<LogLevel, std::string>>& messages) {
  testing::internal::CaptureStderr();
  EXPECT_TRUE(SetUpLogging(level, format).ok());
  for (const auto& [severity, message] : messages) Log(severity, message);
  EXPECT_TRUE(FlushLog(kLong));
  std::istringstream written(testing::internal::GetCapturedStderr());
  std::vector<std::string> lines;
  for (std::string line; std::getline(written, line);) lines.push_back(line);
  return lines;
}

// docs/faults.md, row 54.
const std::vector<std::string>& HostileTexts() {
  static const std::vector<std::string> texts = {"name\r\nERROR forged line",
                                                 "\x1b[31mred\x1b[0m",
                                                 "\xc2\x9b"
                                                 "31m a C1 control",
                                                 "quote \" backslash \\ {}",
                                                 "\xff\xfe not UTF-8",
                                                 "cut \xe2\x82",
                                                 std::string("NUL \0 here", 10),
                                                 "tab\tbell\a delete\x7f",
                                                 "cats\u202egpj.exe",
                                                 "one\u2028two\u2029three",
                                                 "\u2066isolated\u2069 \u061c\u200e\u200f",
                                                 "\\u0041 \\n"};
  return texts;
}

TEST(LoggingTest, AHostileTextIsOneLineOfTextWithoutControls) {
  for (const std::string& text : HostileTexts()) {
    const auto lines = LinesOf("info", "text", {{LogLevel::kInfo, text}});
    ASSERT_THAT(lines, SizeIs(1)) << text;
    for (const char c : lines[0]) {
      EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << lines[0];
    }
    for (const char* mark : {"\xc2\x9b", "\u202e", "\u2028", "\u2029", "\u2066", "\u2069", "\u061c",
                             "\u200e", "\u200f"}) {
      EXPECT_THAT(lines[0], Not(HasSubstr(mark)));
    }
  }
}

TEST(LoggingTest, AHostileTextIsOneValidObjectOfJson) {
  for (const std::string& text : HostileTexts()) {
    const auto lines = LinesOf("info", "json", {{LogLevel::kWarning, text}});
    ASSERT_THAT(lines, SizeIs(1)) << text;
    const auto object = nlohmann::json::parse(lines[0], nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << lines[0];
    EXPECT_EQ(object["level"], "warning");
    EXPECT_TRUE(object["message"].is_string());
    EXPECT_TRUE(
        std::regex_match(object["time"].get<std::string>(),
                         std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z")));
  }
}

TEST(LoggingTest, PlainTextArrivesUnchanged) {
  const std::string text = "cats: größer, 猫 \"ready\" after 1.2 s";
  EXPECT_THAT(LinesOf("info", "text", {{LogLevel::kInfo, text}}), ElementsAre(EndsWith(text)));
  const auto lines = LinesOf("info", "json", {{LogLevel::kInfo, text}});
  EXPECT_EQ(nlohmann::json::parse(lines.at(0))["message"], text);
}

// Programs that started the server read these.
TEST(LoggingTest, AnAnnouncementIsPlainTextOrAnObjectOnStandardOutput) {
  const auto announced = [](std::string_view format) {
    testing::internal::CaptureStdout();
    EXPECT_TRUE(SetUpLogging("error", format).ok());
    Announce("listening: grpc=[::1]:8001", {{"event", "listening"}, {"port", int64_t{8001}}});
    EXPECT_TRUE(FlushLog(kLong));
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_EQ(announced("text"), "listening: grpc=[::1]:8001\n");
  const auto object = nlohmann::json::parse(announced("json"));
  EXPECT_EQ(object["message"], "listening: grpc=[::1]:8001");
  EXPECT_EQ(object["level"], "info");
  EXPECT_EQ(object["event"], "listening");
  EXPECT_EQ(object["port"], 8001);
}

TEST(LoggingTest, TheLevelDecidesWhatIsWritten) {
  const std::vector<std::pair<LogLevel, std::string>> messages = {{LogLevel::kDebug, "one"},
                                                                  {LogLevel::kInfo, "two"},
                                                                  {LogLevel::kWarning, "three"},
                                                                  {LogLevel::kError, "four"}};
  EXPECT_THAT(LinesOf("debug", "text", messages), SizeIs(4));
  EXPECT_THAT(LinesOf("info", "text", messages), SizeIs(3));
  EXPECT_THAT(LinesOf("warning", "text", messages), SizeIs(2));
  EXPECT_THAT(LinesOf("error", "text", messages), ElementsAre(EndsWith("four")));
}

// docs/faults.md, row 96: standard error is a full pipe that nobody reads.
TEST(LoggingTest, NobodyWaitsForAReaderThatStallsAndTheGapIsToldWhereItIs) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int capacity = fcntl(ends[1], F_SETPIPE_SZ, 4096);
  ASSERT_GT(capacity, 0);
  const std::string full(static_cast<size_t>(capacity), '\n');
  ASSERT_EQ(write(ends[1], full.data(), full.size()), capacity);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  ASSERT_TRUE(SetUpLogging("info", "text").ok());
  const int64_t dropped_before = DroppedLogLines();
  const int total = limits::kMaxQueuedLogLines + 100;
  for (int i = 0; i < total; ++i) Log(LogLevel::kInfo, "line " + std::to_string(i));
  EXPECT_FALSE(FlushLog(std::chrono::milliseconds(0)));
  const int64_t dropped = DroppedLogLines() - dropped_before;

  std::string written;
  std::thread reader([&] {
    char piece[4096];
    for (ssize_t count; (count = read(ends[0], piece, sizeof(piece))) > 0;) {
      written.append(piece, static_cast<size_t>(count));
    }
  });
  EXPECT_TRUE(FlushLog(kLong));
  dup2(before, STDERR_FILENO);  // the pipe's end
  close(before);
  reader.join();
  close(ends[0]);

  int last = -1, lines = 0;
  int64_t missing = 0;
  std::istringstream text(written);
  for (std::string line; std::getline(text, line);) {
    std::smatch found;
    if (std::regex_search(line, found, std::regex(" warning (\\d+) lines are missing here"))) {
      missing += std::stoll(found[1]);
    } else if (std::regex_search(line, found, std::regex(" line (\\d+)$"))) {
      const int number = std::stoi(found[1]);
      EXPECT_GT(number, last);
      if (number > last + 1) EXPECT_GT(missing, 0) << "an untold gap before " << line;
      last = number;
      ++lines;
    }
  }
  EXPECT_EQ(last, total - 1);
  EXPECT_GE(lines, limits::kMaxQueuedLogLines - 2);  // but for the two flushes
  EXPECT_GE(dropped, total - limits::kMaxQueuedLogLines - 1);
  // The first flush is dropped as a line, where it is.
  EXPECT_GE(missing, total - lines);
  EXPECT_LE(missing, total - lines + 1);
}

}  // namespace
}  // namespace fovea
