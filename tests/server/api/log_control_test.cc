#include "server/api/log_control.h"

#include <gtest/gtest.h>

namespace fovea {
namespace {

class LogControlTest : public ::testing::Test {
 protected:
  LogControlTest() { SetLogLevels({}); }
  ~LogControlTest() override { SetLogLevels({}); }

  static std::string WrittenAt(LogLevel level) {
    testing::internal::CaptureStdout();
    Log(level, "a line");
    return testing::internal::GetCapturedStdout();
  }
};

TEST_F(LogControlTest, TellsAllSixSettings) {
  const LogControl::Values settings = LogControl("json").Current();
  EXPECT_EQ(settings, (LogControl::Values{{"log_file", std::string()},
                                          {"log_info", true},
                                          {"log_warning", true},
                                          {"log_error", true},
                                          {"log_verbose_level", 0u},
                                          {"log_format", std::string("json")}}));
}

TEST_F(LogControlTest, EachLevelIsTurnedOffAndOnByItself) {
  LogControl control("text");
  ASSERT_TRUE(control.Change({{"log_info", false}}, "a caller").ok());
  EXPECT_EQ(WrittenAt(LogLevel::kInfo), "");
  EXPECT_NE(WrittenAt(LogLevel::kWarning), "");
  ASSERT_TRUE(control.Change({{"log_info", true}, {"log_error", false}}, "a caller").ok());
  EXPECT_NE(WrittenAt(LogLevel::kInfo), "");
  EXPECT_EQ(WrittenAt(LogLevel::kError), "");
  EXPECT_EQ(std::get<bool>(control.Current().at("log_error")), false);
}

TEST_F(LogControlTest, AVerboseLevelWritesWhatIsForDebugging) {
  LogControl control("text");
  EXPECT_FALSE(CurrentLogLevels().debug);
  ASSERT_TRUE(control.Change({{"log_verbose_level", 3u}}, "a caller").ok());
  EXPECT_TRUE(CurrentLogLevels().debug);
  EXPECT_EQ(std::get<uint32_t>(control.Current().at("log_verbose_level")), 3u);
  ASSERT_TRUE(control.Change({{"log_verbose_level", 0u}}, "a caller").ok());
  EXPECT_FALSE(CurrentLogLevels().debug);
}

TEST_F(LogControlTest, NoValueIsAsAtTheStart) {
  SetLogLevels({.error = true, .warning = true, .info = false, .debug = false});
  LogControl control("text");
  ASSERT_TRUE(control.Change({{"log_info", true}, {"log_verbose_level", 1u}}, "a caller").ok());
  ASSERT_TRUE(control.Change({{"log_info", {}}, {"log_verbose_level", {}}}, "a caller").ok());
  EXPECT_EQ(CurrentLogLevels(),
            (LogLevels{.error = true, .warning = true, .info = false, .debug = false}));
}

TEST_F(LogControlTest, WhatIsRefusedChangesNothing) {
  LogControl control("text");
  const auto before = control.Current();
  const LogControl::Values senseless[] = {{{"log_info", std::string("yes")}},
                                          {{"log_verbose_level", true}},
                                          {{"log_file", 1u}},
                                          {{"log_colour", true}},
                                          {{"log_info", false}, {"log_x", true}}};
  for (const auto& change : senseless) {
    EXPECT_TRUE(absl::IsInvalidArgument(control.Change(change, "a caller")));
  }
  EXPECT_TRUE(
      absl::IsUnimplemented(control.Change({{"log_file", std::string("/tmp/log")}}, "a caller")));
  EXPECT_TRUE(
      absl::IsUnimplemented(control.Change({{"log_format", std::string("json")}}, "a caller")));
  EXPECT_TRUE(absl::IsUnimplemented(
      control.Change({{"log_info", false}, {"log_file", std::string("/tmp/log")}}, "a caller")));
  EXPECT_EQ(control.Current(), before);
  EXPECT_TRUE(
      control.Change({{"log_file", std::string()}, {"log_format", std::string("text")}}, "a caller")
          .ok());
}

}  // namespace
}  // namespace fovea
