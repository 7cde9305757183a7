#include "server/core/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

namespace fovea {
namespace {

// docs/faults.md, row 54: nobody's text forges a line or moves a terminal's cursor.
TEST(LogTest, EscapesControlCharacters) {
  testing::internal::CaptureStdout();
  Log(LogLevel::kError, std::string("name\r\nforged line\x1b[31m\0\x7f", 25));
  const std::string line = testing::internal::GetCapturedStdout();
  EXPECT_NE(line.find("name\\x0d\\x0aforged line\\x1b[31m\\x00\\x7f"), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(LogTest, DoesNotTakeATextForAFormat) {
  testing::internal::CaptureStdout();
  Log(LogLevel::kInfo, "{} {:d} %s");
  EXPECT_NE(testing::internal::GetCapturedStdout().find("{} {:d} %s"), std::string::npos);
}

class Concerns final : public LogContext {
 public:
  explicit Concerns(std::string text) : text_(std::move(text)) {}
  std::string About() const override { return text_; }

 private:
  const std::string text_;
};

TEST(LogTest, LinesEndWithWhatTheirThreadIsAbout) {
  testing::internal::CaptureStdout();
  {
    const Concerns outer("all");
    {
      const Concerns inner("one\nforged");
      Log(LogLevel::kError, "first");
      std::thread([] { Log(LogLevel::kError, "second"); }).join();
    }
    LogAlways(LogLevel::kError, "third");
  }
  Log(LogLevel::kError, "fourth");
  const std::string lines = testing::internal::GetCapturedStdout();
  for (const char* line :
       {" first (one\\x0aforged)\n", " second\n", " third (all)\n", " fourth\n"}) {
    EXPECT_NE(lines.find(line), std::string::npos) << line << lines;
  }
}

}  // namespace
}  // namespace fovea
