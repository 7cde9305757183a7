#include "server/observe/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "server/core/log.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> LinesOf(std::string_view level, std::string_view format,
                                 const std::vector<std::pair<LogLevel, std::string>>& messages) {
  testing::internal::CaptureStderr();
  SetUpLogging(level, format);
  for (const auto& [severity, message] : messages) Log(severity, message);
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
    EXPECT_THAT(lines[0], Not(HasSubstr("\xc2\x9b")));
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
    SetUpLogging("error", format);
    Announce("listening: grpc=[::1]:8001", {{"event", "listening"}, {"port", int64_t{8001}}});
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

}  // namespace
}  // namespace fovea
